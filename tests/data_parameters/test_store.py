"""Tables in a file train like tables in memory, and outlive the process."""

import os
import signal
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import IndexedBatches
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
    for store in (None, tmp_path / "rows.npy"):
        model, scale = make(store)
        fit(model, scale, epochs=2)
        results.append((scale.rows.table.numpy(), model.get_weights()[0]))
    for memory, disk in zip(*results, strict=True):
        np.testing.assert_allclose(disk, memory, rtol=1e-6, atol=1e-7)


def test_goes_on_from_the_file(tmp_path):
    model, scale = make(tmp_path / "rows.npy")
    fit(model, scale)
    _, again = make(tmp_path / "rows.npy")
    np.testing.assert_array_equal(again.values(), scale.values())
    np.testing.assert_array_equal(again.values([3, 1]), scale.values()[[3, 1]])


def test_saved_model_knows_its_file(tmp_path):
    model, scale = make(tmp_path / "rows.npy", fallback="mean")
    fit(model, scale)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = loaded.data_parameters["scale"]
    np.testing.assert_array_equal(again.values(), scale.values())
    x, y = example_data()
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx(
        model.evaluate(x, y, verbose=0), rel=1e-6
    )


def test_batches_announce_what_comes_next(tmp_path):
    x, y = example_data()
    announced = []

    class Listener:
        def announce(self, index):
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


def test_trains_on_announced_batches(tmp_path):
    x, y = example_data()
    model, scale = make(tmp_path / "rows.npy")
    batches = IndexedBatches(
        x, y, batch_size=8, shuffle=False, data_parameters=[scale]
    )
    model.fit(batches, shuffle=False, callbacks=[scale], verbose=0)
    other, expected = make()
    fit(other, expected)
    np.testing.assert_allclose(
        scale.rows.table.numpy(), expected.rows.table.numpy(), rtol=1e-6
    )


def test_explicit_xla_is_refused_on_tensorflow(tmp_path):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only XLA inside TensorFlow cannot call the host")
    model, scale = make(tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="jit_compile"):
        model.compile(loss=kl.losses.NormalLoss(scale=scale), jit_compile=True)


def test_save_is_the_file_itself(tmp_path):
    _, scale = make(tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="its own file"):
        scale.save(tmp_path / "other.npz")


class _DieAfter(keras.callbacks.Callback):
    """Kills the process between two batches, without a chance to tidy up."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch, logs=None):
        if batch + 1 == self.batches:
            os.kill(os.getpid(), signal.SIGKILL)


def test_killed_in_mid_epoch_and_resumed(tmp_path):
    path = tmp_path / "rows.npy"
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
