"""File tables train like tables in memory, and are part of checkpoints."""

import concurrent.futures
import contextlib
import errno
import json
import os
import random
import signal
import stat
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

import keras_likelihood as kl
from keras_likelihood.data_parameters import FileTable

# The processes that are killed run compiled steps.
pytestmark = pytest.mark.usefixtures("step_by_step")
ROWS, BATCH, EPOCHS = 40, 8, 80
FILES = {"scale.npy", "scale.npy.json"}


def make(path=None, **options):
    table = path and FileTable(path)
    scale = kl.DataParameter(ROWS, dimension="element", table=table, **options)
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


def fit(model, *callbacks, **options):
    x, y = example_data()
    options = {"batch_size": BATCH, "shuffle": False, "verbose": 0, **options}
    return model.fit(x, kl.indexed(y), callbacks=[*callbacks], **options)


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


class At(keras.callbacks.Callback):
    """Calls a function before one batch."""

    def __init__(self, batch, function):
        super().__init__()
        self.batch, self.function = batch, function

    def on_train_batch_begin(self, batch, logs=None):
        # Reading `model` updates its variables on JAX.
        if batch == self.batch and self.model:
            self.function()


def all_states(epochs):
    """Kernel and rows before each step and after the last, in memory."""
    model, scale = make()
    found = []

    def note():
        found.append((model.get_weights()[0], scale.state()))

    fit(model, *(At(batch, note) for batch in range(5)), epochs=epochs)
    note()
    return found


@pytest.fixture(scope="module")
def expected():
    return all_states(2)


def assert_at_step(model, scale, step):
    kernel, rows = step
    np.testing.assert_allclose(model.get_weights()[0], kernel, rtol=1e-5)
    np.testing.assert_allclose(scale.state(), rows, rtol=1e-5, atol=1e-7)


@pytest.mark.few(0)
def test_equals_the_table_in_memory(tmp_path, expected):
    model, scale = make(tmp_path / "folder" / "scale.npy")
    np.testing.assert_allclose(scale.values(), 1.0, rtol=1e-6)
    x, y = example_data()
    model.evaluate(x, kl.indexed(y), verbose=0)
    assert os.listdir(tmp_path) == []
    fit(model)
    assert_at_step(model, scale, expected[5])
    # The next training continues from the file.
    fit(model)
    assert_at_step(model, scale, expected[10])
    _, again = make(tmp_path / "folder" / "scale.npy")
    np.testing.assert_array_equal(again.state(), scale.state())
    opened = np.load(tmp_path / "folder" / "scale.npy", mmap_mode="r")
    np.testing.assert_array_equal(opened, scale.state())
    about = json.loads((tmp_path / "folder" / "scale.npy.json").read_text())
    assert about["columns"] == ["displacement", "mean_square"]
    assert about["parameter"] == "scale"
    assert set(os.listdir(tmp_path / "folder")) <= FILES


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_rows_are_found_by_the_rules_of_numpy(tmp_path, kind):
    model, scale = make(tmp_path / "scale.npy" if kind == "file" else None)
    fit(model)
    every = scale.values()
    mask = every[:, 0] > 1
    for index in (mask, [-1, 0], slice(3, 9, 2), 5, [], [[1, 2], [3, 4]]):
        chosen = every[index] if np.size(index) else every[:0]
        np.testing.assert_allclose(scale.values(index), chosen, rtol=1e-6)
    for outside in ([ROWS], [-ROWS - 1], mask[:-1], [0.5]):
        for use in (scale.values, scale.keep):
            with pytest.raises(IndexError, match="`index` must be.*Received"):
                use(outside)


class TestRefusals:
    def test_files_of_others(self, tmp_path):
        mine = tmp_path / "mine.npy"
        np.save(mine, np.ones((ROWS, 2, 2), "float32"))
        text = tmp_path / "text.npy"
        text.write_text("mine")
        json_of_mine = tmp_path / "new.npy.json"
        json_of_mine.write_text("{}")
        before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
        for path in (mine, text, tmp_path / "new.npy"):
            model, scale = make(path)
            with pytest.raises(ValueError, match="not a table"):
                fit(model)
        after = {name: (tmp_path / name).read_bytes() for name in before}
        assert after == before and not (tmp_path / "new.npy").exists()

    def test_tables_of_others(self, tmp_path):
        path = tmp_path / "scale.npy"
        fit(make(path)[0])
        other, scale = make(path, initial=2.0)
        with pytest.raises(
            ValueError, match="does not match this table.*'initial': 2.0"
        ):
            fit(other)
        with pytest.raises(ValueError, match="does not match this table"):
            scale.values()
        more = kl.DataParameter(
            50, dimension="element", table=FileTable(path)
        ).bind(kl.likelihoods.Normal, "scale")
        more.build((None, 2))
        with pytest.raises(ValueError, match="call `append`"):
            more.values()

    def test_a_damaged_table_is_never_changed(self, tmp_path):
        path = tmp_path / "scale.npy"
        fit(make(path)[0])
        good = path.read_bytes()
        header = good.index(b"\n") + 1
        false = good[:header].replace(b"(40, 2, 2)", b"(40000, 2, 2)")
        damaged = [good[:300], good[:-1], good + bytes(8), good[:header]]
        damaged += [bytes(8) + good, good[:header] + bytes(8) + good[header:]]
        damaged += [false[:-4] + b"\n" + good[header:], b"", good[:7]]
        damaged += [good[:60] + b" " * 8 + good[60:]]
        for content in damaged:
            path.write_bytes(content)
            model, scale = make(path)
            zeros = np.zeros((ROWS, 2, 2), "float32")
            for use in (
                lambda m=model: fit(m),
                scale.values,
                lambda s=scale, z=zeros: s.table.assign(z),
            ):
                with pytest.raises(kl.FileError, match=r"scale\.npy"):
                    use()
            assert path.read_bytes() == content

    def test_a_flipped_bit_in_the_header_changes_no_row(self, tmp_path):
        path = tmp_path / "scale.npy"
        model, scale = make(path)
        fit(model)
        good, rows = path.read_bytes(), scale.state()
        for position in range(0, 8 * good.index(b"\n"), 5):
            content = bytearray(good)
            content[position // 8] ^= 1 << position % 8
            path.write_bytes(content)
            try:
                np.testing.assert_array_equal(scale.state(), rows)
            except ValueError as error:
                assert "scale.npy" in str(error)

    def test_rows_that_are_not_finite(self, tmp_path):
        path = tmp_path / "scale.npy"
        model, scale = make(path)
        fit(model)
        rows = np.load(path, mmap_mode="r+")
        rows[7, 0, 1] = np.nan
        rows.flush()
        assert np.isfinite(scale.values(slice(7))).all()
        for use in (scale.values, scale.state, lambda: fit(model)):
            with pytest.raises(kl.FileError, match="npy has rows that no"):
                use()

    def test_pipes(self, tmp_path):
        path = tmp_path / "scale.npy"
        os.mkfifo(path)
        model, scale = make(path)
        (tmp_path / "scale.npy.json").write_text("{}")
        for use in (scale.values, lambda: fit(model)):
            with pytest.raises(kl.FileError, match="a file is needed"):
                use()

    @pytest.mark.few(0)
    @pytest.mark.parametrize("road", ["same", "symlink", "link"])
    def test_second_writers(self, tmp_path, road):
        model, scale = make(tmp_path / "scale.npy")
        fit(model)
        path = tmp_path / ("scale.npy" if road == "same" else "other.npy")
        if road != "same":
            link = os.symlink if road == "symlink" else os.link
            link(tmp_path / "scale.npy", path)
            link(tmp_path / "scale.npy.json", f"{path}.json")
        other, second = make(path)

        def meanwhile():
            assert np.isfinite(second.values()).all()
            with pytest.raises(BlockingIOError, match="npy', which is locked"):
                fit(other)

        fit(model, At(1, meanwhile))
        # A finished training keeps nothing open.
        fit(other)

    @pytest.mark.parametrize("how", ["deleted", "replaced", "cut"])
    def test_a_file_that_changes_during_fit(self, tmp_path, how):
        path = tmp_path / "scale.npy"
        model, scale = make(path)

        def change():
            if how == "cut":
                os.truncate(path, 300)
                return
            os.remove(path)
            if how == "replaced":
                path.write_bytes(b"mine")

        with pytest.raises(OSError, match="deleted, replaced or truncated"):
            fit(model, At(2, change))
        assert how != "replaced" or path.read_bytes() == b"mine"
        assert np.isfinite(model.layers[-1].get_weights()[0]).all()

    def test_a_full_disk_when_the_file_is_made(self, tmp_path, monkeypatch):
        model, scale = make(tmp_path / "scale.npy")
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left.*scale.npy"):
            fit(model)
        monkeypatch.undo()
        assert not os.listdir(tmp_path)
        fit(model)
        assert set(os.listdir(tmp_path)) <= FILES

    def test_planted_links_are_not_followed(self, tmp_path):
        mine = tmp_path / "mine"
        mine.write_text("mine")
        model, scale = make(tmp_path / "scale.npy")
        os.symlink(mine, tmp_path / "scale.npy.new")
        os.symlink(mine, tmp_path / "scale.npy.lock")
        fit(model)
        scale.append(3)
        assert mine.read_text() == "mine"

    def test_permissions_are_kept(self, tmp_path):
        path = tmp_path / "scale.npy"
        model, scale = make(path)
        fit(model)
        for name in FILES:
            os.chmod(tmp_path / name, 0o600)
        scale.append(3)
        for name in FILES:
            assert stat.S_IMODE(os.stat(tmp_path / name).st_mode) == 0o600


class TestInterrupted:
    """After any end of a training, each row is from the last complete step."""

    @pytest.mark.few(2)
    @pytest.mark.parametrize("position", range(6))
    def test_by_an_error_between_steps(self, tmp_path, expected, position):
        def fail():
            raise (KeyboardInterrupt if position % 2 else RuntimeError)

        model, scale = make(tmp_path / "scale.npy")
        if position < 5:
            with pytest.raises((KeyboardInterrupt, RuntimeError)):
                fit(model, At(position, fail))
        else:
            fit(model)
        assert_at_step(model, scale, expected[position])

    @pytest.mark.few(2)
    @pytest.mark.parametrize("position", range(5))
    def test_by_a_batch_of_a_wrong_shape(self, tmp_path, expected, position):
        x, y = example_data()

        def batches():
            for i in range(5):
                part = slice(BATCH * i, BATCH * (i + 1))
                width = 2 if i == position else 3
                index = np.arange(ROWS)[part]
                yield x[part, :width], kl.indexed(y[part], index=index)

        model, scale = make(tmp_path / "scale.npy")
        with pytest.raises(Exception, match="(?i)shape|incompat|dim"):
            model.fit(batches(), shuffle=False, verbose=0)
        rows = expected[position][1]
        np.testing.assert_allclose(scale.state(), rows, rtol=1e-5, atol=1e-7)
        fit(model)

    @pytest.mark.parametrize("kind", ["file", "memory"])
    def test_values_from_another_thread(self, tmp_path, expected, kind):
        model, scale = make(tmp_path / "scale.npy" if kind == "file" else None)
        pool, found = concurrent.futures.ThreadPoolExecutor(1), []

        def read():
            found.append(pool.submit(scale.state).exception())

        fit(model, At(2, read))
        (error,) = found
        if keras.backend.backend() == "jax":
            assert "another thread cannot read" in str(error)
        else:
            assert error is None
        assert_at_step(model, scale, expected[5])


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs /dev/fd")
def test_models_leave_no_file_open(tmp_path):
    def use(number):
        model, scale = make(tmp_path / f"{number}.npy")
        fit(model)
        scale.values()
        return model

    kept = [use(0)]
    before = len(os.listdir("/dev/fd"))
    kept += [use(number) for number in (1, 2)]
    assert len(os.listdir("/dev/fd")) <= before


class TestCheckpoints:
    """A checkpoint has the model and the rows of the same step."""

    @pytest.mark.parametrize("suffix", [".keras", ".weights.h5"])
    def test_restores_both(self, tmp_path, expected, suffix):
        model, scale = make(tmp_path / "scale.npy")
        target = tmp_path / f"model{suffix}"
        save = model.save if suffix == ".keras" else model.save_weights
        fit(model, At(3, lambda: save(target)), epochs=1)
        again, rows = make(tmp_path / "other.npy")
        again.load_weights(target)
        assert_at_step(again, rows, expected[3])
        # The same file, which is newer.
        model.load_weights(target)
        assert_at_step(model, scale, expected[3])
        memory, rows = make()
        memory.load_weights(target)
        assert_at_step(memory, rows, expected[3])

    def test_a_loaded_model_is_in_memory(self, tmp_path, expected):
        model, scale = make(tmp_path / "scale.npy")
        fit(model)
        model.save(tmp_path / "model.keras")
        before = {p: os.stat(p).st_mtime_ns for p in tmp_path.iterdir()}
        loaded = keras.saving.load_model(tmp_path / "model.keras")
        again = loaded.data_parameters["scale"]
        assert_at_step(loaded, again, expected[5])
        assert {p: os.stat(p).st_mtime_ns for p in tmp_path.iterdir()} == before
        assert again.to_file(tmp_path / "scale.npy") is again
        fit(loaded)
        assert_at_step(loaded, again, expected[10])
        assert np.array_equal(np.load(tmp_path / "scale.npy"), again.state())

    @pytest.mark.parametrize("kind", ["file", "memory"])
    def test_backup_resumes_to_the_same_numbers(self, tmp_path, expected, kind):
        def stop():
            raise KeyboardInterrupt

        for first in (True, False):
            path = tmp_path / "scale.npy" if kind == "file" else None
            model, scale = make(path)
            backup = keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))
            if not first:
                fit(model, backup, epochs=2)
                continue
            with pytest.raises(KeyboardInterrupt):
                # The file is ahead of the backup when the training ends.
                fit(model, backup, SecondEpoch(2, stop), epochs=2)
        assert_at_step(model, scale, expected[10])

    @pytest.mark.few(0)
    def test_best_weights_have_their_rows(self, tmp_path, expected):
        model, scale = make(tmp_path / "scale.npy")
        weights = []
        fit(model, At(2, lambda: weights.extend(model.get_weights())))
        model.set_weights(weights)
        assert_at_step(model, scale, expected[2])

    def test_a_save_that_fails_leaves_the_old_file(self, tmp_path, monkeypatch):
        model, scale = make(tmp_path / "scale.npy")
        fit(model)
        model.save(tmp_path / "model.keras")
        names = set(os.listdir(tmp_path))
        before = (tmp_path / "model.keras").read_bytes()

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(OSError, match="No space"):
            model.save(tmp_path / "model.keras")
        assert (tmp_path / "model.keras").read_bytes() == before
        assert set(os.listdir(tmp_path)) == names
        monkeypatch.undo()

    @pytest.mark.few(0)
    def test_killed_at_random_moments(self, tmp_path):
        seed = random.Random(0)
        states = all_states(EPOCHS)
        with trainings() as begin:
            for number in range(3):
                folder = tmp_path / str(number)
                folder.mkdir()
                checkpoint = folder / "model.weights.h5"
                how = (signal.SIGKILL, signal.SIGTERM)[number % 2]
                process, ended_by = begin(folder)
                deadline = time.monotonic() + 120
                while not checkpoint.exists() and time.monotonic() < deadline:
                    time.sleep(0.01)
                time.sleep(seed.random())
                os.kill(process, how)
                # The process was still running.
                assert ended_by() == how
                model, scale = make(folder / "scale.npy")
                model.load_weights(checkpoint)
                kernel = model.get_weights()[0]
                away = [np.abs(kernel - state[0]).max() for state in states]
                assert_at_step(model, scale, states[int(np.argmin(away))])


class SecondEpoch(At):
    def on_epoch_begin(self, epoch, logs=None):
        self.second = epoch == 1

    def on_train_batch_begin(self, batch, logs=None):
        if self.second:
            super().on_train_batch_begin(batch)


@contextlib.contextmanager
def trainings():
    """Starts training processes, each a fork of one with all imports.

    `begin(folder)` returns the id of a process, which saves a checkpoint after
    every batch, and a function that waits for its end and returns the number of
    the signal that ended it, or 0.
    """
    copied = subprocess.Popen(
        [sys.executable, __file__],
        env={
            **os.environ,
            "KERAS_BACKEND": keras.backend.backend(),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def begin(folder):
        print(folder, file=copied.stdin, flush=True)
        number = int(copied.stdout.readline())
        return number, lambda: int(copied.stdout.readline())

    with copied:
        yield begin


def train_and_save(folder):
    model, _ = make(os.path.join(folder, "scale.npy"))
    checkpoint = keras.callbacks.ModelCheckpoint(
        os.path.join(folder, "model.weights.h5"),
        save_weights_only=True,
        save_freq=1,
    )
    fit(model, checkpoint, epochs=EPOCHS)


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if not child:
            train_and_save(line.strip())
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.WTERMSIG(status), flush=True)
