"""Tables in a file train like tables in memory, and outlive the process."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import warnings

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import IndexedBatches, row_file
from keras_likelihood.data_parameters.indexed import split_index

ROWS = 40


def make(store=None, **options):
    scale = kl.DataParameter(
        ROWS, dimension="element", store=store and str(store), **options
    )
    inputs = keras.Input((3,))
    outputs = keras.layers.Dense(2, kernel_initializer="ones")(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.01), loss=kl.losses.NormalLoss(scale=scale)
    )
    return model, scale


def example_data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 3)).astype("float32")
    return x, rng.normal(size=(ROWS, 2)).astype("float32")


def fit(model, scale, **options):
    x, y = example_data()
    options = {"batch_size": 8, "shuffle": False, "verbose": 0, **options}
    model.fit(x, kl.indexed(y), callbacks=[scale], **options)


def test_equals_the_table_in_memory(tmp_path):
    results = []
    for store in (None, tmp_path / "scale.rows"):
        model, scale = make(store)
        fit(model, scale, epochs=2)
        results.append((scale.rows.table.numpy(), model.get_weights()[0]))
    for memory, disk in zip(*results, strict=True):
        np.testing.assert_allclose(disk, memory, rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("step_by_step")
def test_goes_on_from_the_file(tmp_path):
    model, scale = make(tmp_path / "scale.rows")
    fit(model, scale)
    _, again = make(tmp_path / "scale.rows")
    # The rows are the same bits. Their values come from arrays of other
    # sizes, for which a processor may take other instructions.
    table, found = scale.rows.table, again.rows.table
    np.testing.assert_array_equal(found.numpy(), table.numpy())
    np.testing.assert_array_equal(
        found.numpy(np.array([3, 1])), table.numpy()[[3, 1]]
    )
    np.testing.assert_array_equal(again.values(), scale.values())
    np.testing.assert_allclose(
        again.values([3, 1]), scale.values()[[3, 1]], rtol=1e-6
    )


@pytest.mark.usefixtures("step_by_step")
def test_making_a_model_touches_no_file(tmp_path):
    model, scale = make(tmp_path / "folder" / "scale.rows")
    np.testing.assert_allclose(scale.values(), 1.0, rtol=1e-6)
    x, y = example_data()
    model.evaluate(x, kl.indexed(y), verbose=0)
    with pytest.raises(ValueError, match="nothing to save"):
        scale.save(tmp_path / "copy.rows")
    assert os.listdir(tmp_path) == []
    fit(model, scale)
    assert os.listdir(tmp_path / "folder") == ["scale.rows"]


@pytest.mark.usefixtures("step_by_step")
def test_refuses_the_table_of_another_parameter(tmp_path):
    model, scale = make(tmp_path / "scale.rows")
    fit(model, scale)
    other, second = make(tmp_path / "scale.rows", initial=2.0)
    with pytest.raises(ValueError, match="another table.*'initial': 2.0"):
        fit(other, second)
    with pytest.raises(ValueError, match="another table"):
        second.values()
    fit(model, scale)


@pytest.mark.usefixtures("step_by_step")
def test_one_training_at_a_time(tmp_path):
    model, scale = make(tmp_path / "scale.rows")
    other, second = make(tmp_path / "scale.rows")

    class Meanwhile(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if batch == 1:
                assert np.isfinite(second.values()).all()
                with pytest.raises(BlockingIOError, match="has a writer"):
                    fit(other, second)

    x, y = example_data()
    model.fit(x, kl.indexed(y), callbacks=[scale, Meanwhile()], verbose=0)
    # A training that has ended holds nothing.
    fit(other, second)


class _Full(keras.callbacks.Callback):
    """Fills the disk at a batch."""

    def __init__(self, monkeypatch, batch):
        super().__init__()
        self.monkeypatch, self.batch = monkeypatch, batch

    def on_train_batch_begin(self, batch, logs=None):
        if batch == self.batch:

            def full(*_):
                raise OSError(errno.ENOSPC, "No space left on device")

            self.monkeypatch.setattr(row_file, "write_all", full)


def test_full_disk_ends_a_fit_with_every_batch_before(tmp_path, monkeypatch):
    model, scale = make(tmp_path / "scale.rows")
    x, y = example_data()
    options = {"batch_size": 8, "shuffle": False, "verbose": 0}
    with pytest.raises(OSError, match="Every batch before this one is kept"):
        model.fit(
            x,
            kl.indexed(y),
            callbacks=[scale, _Full(monkeypatch, 3)],
            **options,
        )
    monkeypatch.undo()
    moved = scale.rows.table.numpy()[:, 1, 0] > 0
    np.testing.assert_array_equal(moved, np.arange(ROWS) < 24)
    if keras.backend.backend() == "jax":
        model.jax_state_sync()
    assert np.isfinite(model.get_weights()[0]).all()
    fit(model, scale)
    assert np.all(scale.rows.table.numpy()[:, 1, 0] > 0)


@pytest.mark.usefixtures("step_by_step")
class TestLoading:
    def saved(self, folder, **options):
        model, scale = make(folder / "scale.rows", **options)
        fit(model, scale)
        model.save(folder / "model.keras")
        return model, scale

    def load(self, folder):
        model = keras.saving.load_model(folder / "model.keras")
        return model, model.data_parameters["scale"]

    def test_opens_nothing_before_it_is_told(self, tmp_path):
        model, scale = self.saved(tmp_path, fallback="mean")
        os.replace(tmp_path / "scale.rows", tmp_path / "moved.rows")
        before = snapshot(tmp_path)
        loaded, again = self.load(tmp_path)
        assert not again.is_open
        x, y = example_data()
        assert loaded.evaluate(x, y, verbose=0) == pytest.approx(
            model.evaluate(x, y, verbose=0), rel=1e-6
        )
        loaded.predict(x, verbose=0)
        for use in (
            again.values,
            lambda: fit(loaded, again),
            lambda: loaded.train_on_batch(x, kl.indexed(y)),
            lambda: loaded.test_on_batch(x, kl.indexed(y)),
            lambda: again.save(tmp_path / "copy.rows"),
        ):
            with pytest.raises(ValueError, match=r"data_parameters.*\.open\("):
                use()
        with pytest.raises(FileNotFoundError, match="create=True"):
            again.open(tmp_path / "scale.rows")
        assert not again.is_open
        assert snapshot(tmp_path) == before
        assert again.open(tmp_path / "moved.rows") is again
        np.testing.assert_array_equal(again.values(), scale_values(scale))
        fit(loaded, again)

    def test_refuses_another_file_and_may_start_anew(self, tmp_path):
        self.saved(tmp_path)
        np.save(tmp_path / "mine.npy", np.ones((ROWS, 4), "float32"))
        loaded, again = self.load(tmp_path)
        with pytest.raises(ValueError, match="NumPy array"):
            again.open(tmp_path / "mine.npy")
        again.open(tmp_path / "new.rows", create=True)
        assert not (tmp_path / "new.rows").exists()
        np.testing.assert_allclose(again.values(), 1.0, rtol=1e-6)
        fit(loaded, again)
        assert (tmp_path / "new.rows").exists()
        with pytest.raises(ValueError, match="in memory"):
            make()[1].open(tmp_path / "new.rows")

    def test_whatever_the_file_says(self, tmp_path):
        """A config that names other people's files leaves them alone."""
        model, _ = make(tmp_path / "important", tensorboard="logs")
        model.save(tmp_path / "model.keras")
        (tmp_path / "important.journal").write_text("mine")
        before = snapshot(tmp_path)
        loaded, scale = self.load(tmp_path)
        x, y = example_data()
        loaded.evaluate(x, y, verbose=0)
        assert scale.tensorboard is None
        assert snapshot(tmp_path) == before


def scale_values(scale):
    scale.open(scale.store.replace("scale.rows", "moved.rows"))
    return scale.values()


def snapshot(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_batches_say_what_comes_next(tmp_path):
    x, y = example_data()
    announced = []

    class Listener:
        def prefetch(self, index):
            announced.append(np.array(index))

    batches = IndexedBatches(
        x, y, batch_size=16, seed=0, data_parameters=[Listener()]
    )
    seen = []
    for number in range(len(batches)):
        inputs, target = batches[number]
        target, _, index = split_index(target)
        np.testing.assert_array_equal(inputs, x[index])
        np.testing.assert_array_equal(target, y[index])
        seen.append(index)
    for said, found in zip(announced, seen[1:], strict=True):
        np.testing.assert_array_equal(said, found)
    np.testing.assert_array_equal(
        np.sort(np.concatenate(seen)), np.arange(ROWS)
    )
    batches.on_epoch_end()
    order = np.concatenate([batches._places(n) for n in range(3)])
    assert np.any(order != np.concatenate(seen))


def test_trains_on_batches_read_ahead(tmp_path):
    x, y = example_data()
    model, scale = make(tmp_path / "scale.rows")
    batches = IndexedBatches(
        x, y, batch_size=8, shuffle=False, data_parameters=[scale]
    )
    model.fit(batches, shuffle=False, callbacks=[scale], verbose=0)
    other, expected = make()
    fit(other, expected)
    np.testing.assert_allclose(
        scale.rows.table.numpy(), expected.rows.table.numpy(), rtol=1e-6
    )


@pytest.mark.usefixtures("step_by_step")
@pytest.mark.parametrize("several", [False, True], ids=["threads", "forks"])
def test_batches_made_by_workers(tmp_path, several):
    if several and keras.backend.backend() != "torch":
        pytest.skip("forking a process with running threads may deadlock")
    x, y = example_data()
    model, scale = make(tmp_path / "scale.rows")
    batches = IndexedBatches(
        x,
        y,
        batch_size=4,
        data_parameters=[scale],
        workers=4,
        use_multiprocessing=several,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model.fit(
            batches, epochs=2, shuffle=False, callbacks=[scale], verbose=0
        )
    assert np.all(scale.rows.table.numpy()[:, 1, 0] > 0)
    assert pickle.loads(pickle.dumps(batches)).data_parameters == []


def test_explicit_xla_is_refused_on_tensorflow(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only XLA inside TensorFlow cannot call the host")
    model, scale = make(tmp_path / "scale.rows")
    with pytest.raises(ValueError, match="jit_compile"):
        model.compile(loss=kl.losses.NormalLoss(scale=scale), jit_compile=True)


@pytest.mark.usefixtures("step_by_step")
def test_save_copies_between_two_batches(tmp_path):
    model, scale = make(tmp_path / "scale.rows")

    class Copy(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            scale.save(tmp_path / f"{epoch}.rows")

    x, y = example_data()
    model.fit(x, kl.indexed(y), callbacks=[scale, Copy()], verbose=0, epochs=2)
    for epoch, same in ((0, False), (1, True)):
        _, copied = make(tmp_path / f"{epoch}.rows")
        assert np.array_equal(copied.values(), scale.values()) is same
    with pytest.raises(FileExistsError):
        scale.save(tmp_path / "0.rows")
    _, memory = make()
    memory.load(tmp_path / "1.rows")
    np.testing.assert_array_equal(
        memory.rows.table.numpy(), scale.rows.table.numpy()
    )


class _DieAfter(keras.callbacks.Callback):
    """Kills the process between two batches, without a chance to tidy up."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.batches:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.usefixtures("step_by_step")
def test_killed_in_mid_epoch_and_resumed(tmp_path):
    path = tmp_path / "scale.rows"
    done = subprocess.run(
        [sys.executable, __file__, str(path)],
        env={
            **os.environ,
            "KERAS_BACKEND": keras.backend.backend(),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    _, resumed = make(path)
    after_death = resumed.rows.table.numpy()
    # Three batches of eight were trained; the rest of the rows never were.
    memory, expected = make()
    x, y = example_data()
    memory.fit(
        x[:24],
        kl.indexed(y[:24]),
        batch_size=8,
        shuffle=False,
        callbacks=[expected],
        verbose=0,
    )
    np.testing.assert_allclose(
        after_death, expected.rows.table.numpy(), rtol=1e-6, atol=1e-7
    )
    assert np.all(after_death[:24, 1] > 0)
    model, resumed = make(path)
    model.fit(
        x[24:],
        kl.indexed(y[24:], index=np.arange(24, ROWS)),
        callbacks=[resumed],
        verbose=0,
    )
    after = resumed.rows.table.numpy()
    np.testing.assert_array_equal(after[:24], after_death[:24])
    assert np.all(after[:, 1] > 0)


if __name__ == "__main__":
    model, scale = make(sys.argv[1])
    x, y = example_data()
    model.fit(
        x,
        kl.indexed(y),
        batch_size=8,
        shuffle=False,
        callbacks=[scale, _DieAfter(3)],
        verbose=0,
    )
