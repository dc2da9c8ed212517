"""A file of rows: contents, owner, lock, journal and sudden death."""

import errno
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from keras_likelihood import data_parameters
from keras_likelihood.data_parameters import row_file, row_pages, row_space
from keras_likelihood.data_parameters.row_file import RowFile

pytestmark = pytest.mark.one_backend

FAULTS = pathlib.Path(__file__).parents[2] / "benchmarks" / "faults.py"
OWNER = {"likelihood": "normal", "parameter": "scale", "initial": 1.0}


def open_file(folder, name="scale.rows", **options):
    options = {"num_rows": 50, "width": 3, "owner": OWNER, **options}
    return RowFile(folder / name, **options)


@pytest.fixture(params=["in place", "elsewhere"])
def road(request, monkeypatch):
    """Both ways of storing rows, whatever the file system of the test."""
    if request.param == "elsewhere":
        for module in (row_file, row_space):
            monkeypatch.setattr(module, "writes_in_place", lambda path: False)
    return request.param


def test_starts_at_zero_and_keeps_what_is_written(tmp_path, rng, road):
    file = open_file(tmp_path)
    expected = np.zeros((50, 3), "float32")
    for _ in range(20):
        index = rng.choice(50, 7, replace=False)
        rows = rng.normal(size=(7, 3)).astype("float32")
        expected[index] = rows
        file.write(index, rows)
    np.testing.assert_array_equal(file.read(np.arange(50)), expected)
    file.close()
    again = open_file(tmp_path, sync=True)
    np.testing.assert_array_equal(again.read(slice(None)), expected)
    again.write(np.array([1]), np.ones((1, 3), "float32"))
    again.close()
    assert open_file(tmp_path, mode="r").read(np.array([1])).sum() == 3


def test_its_room_is_reserved_when_it_is_made(tmp_path):
    if not row_space.writes_in_place(tmp_path):
        pytest.skip("this file system reserves nothing")
    open_file(tmp_path, num_rows=10**6, width=4).close()
    status = os.stat(tmp_path / "scale.rows")
    assert status.st_blocks * 512 >= 20e6


def test_a_disk_too_small_is_known_before_training(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, before[1]))
    try:
        with pytest.raises(OSError, match="cannot be written"):
            open_file(tmp_path, num_rows=10**6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(tmp_path) == []


def test_reads_rows_ahead(tmp_path):
    file = open_file(tmp_path)
    file.write(np.array([4]), np.ones((1, 3), "float32"))
    file.prefetch(np.array([4, 5]))
    assert file.read(np.array([4, 6])).sum() == 3
    file.close()


class TestOwner:
    @pytest.mark.parametrize(
        ("other", "named"),
        [
            ({"width": 4}, "numbers in a row"),
            ({"num_rows": 51}, "rows"),
            ({"owner": {**OWNER, "parameter": "shape"}}, "parameter"),
            ({"owner": {**OWNER, "initial": 2.0}}, "initial"),
            ({"owner": {}}, "likelihood"),
        ],
    )
    @pytest.mark.parametrize("mode", ["a", "r"])
    def test_refuses_the_file_of_another_table(
        self, tmp_path, other, named, mode
    ):
        open_file(tmp_path).close()
        before = (tmp_path / "scale.rows").read_bytes()
        with pytest.raises(ValueError, match=f"another table.*'{named}'"):
            open_file(tmp_path, mode=mode, **other)
        assert (tmp_path / "scale.rows").read_bytes() == before

    @pytest.mark.parametrize(
        "content", [b"", b"x", b"\x89KLROWS\n", bytes(10**5)], ids=len
    )
    def test_refuses_what_is_no_table(self, tmp_path, content):
        path = tmp_path / "scale.rows"
        path.write_bytes(content)
        with pytest.raises(ValueError, match="not a table of data parameters"):
            open_file(tmp_path)
        assert path.read_bytes() == content
        assert not data_parameters.verify(path).ok
        assert os.listdir(tmp_path) == ["scale.rows"]

    def test_refuses_an_array_of_the_user(self, tmp_path):
        np.save(tmp_path / "mine.npy", np.ones((50, 3), "float32"))
        (tmp_path / "mine.npy.journal").write_text("a diary")
        before = (tmp_path / "mine.npy").read_bytes()
        with pytest.raises(ValueError, match="NumPy array.*0.1.0.*`load`"):
            open_file(tmp_path, "mine.npy")
        assert (tmp_path / "mine.npy").read_bytes() == before
        assert (tmp_path / "mine.npy.journal").read_text() == "a diary"

    def test_refuses_what_is_no_file(self, tmp_path):
        os.mkfifo(tmp_path / "scale.rows")
        with pytest.raises(ValueError, match="not a regular file"):
            open_file(tmp_path)

    def test_missing(self, tmp_path):
        for mode in ("r", "r+"):
            with pytest.raises(FileNotFoundError):
                open_file(tmp_path, mode=mode)
        assert os.listdir(tmp_path) == []


class TestLock:
    def test_one_writer_any_readers(self, tmp_path):
        file = open_file(tmp_path)
        file.write(np.array([2]), np.ones((1, 3), "float32"))
        with pytest.raises(BlockingIOError, match=f"process {os.getpid()} on"):
            open_file(tmp_path)
        before = (tmp_path / "scale.rows").read_bytes()
        reader = open_file(tmp_path, mode="r")
        assert reader.read(np.array([2])).sum() == 3
        with pytest.raises(ValueError, match="open for reading"):
            reader.write(np.array([2]), np.ones((1, 3), "float32"))
        reader.close()
        assert (tmp_path / "scale.rows").read_bytes() == before
        file.write(np.array([2]), np.zeros((1, 3), "float32"))
        file.close()
        open_file(tmp_path).close()

    def test_writer_of_another_process(self, tmp_path):
        path = tmp_path / "scale.rows"
        with writing(path, 64, 3, 32) as writer:
            writer.stdout.readline()
            with pytest.raises(BlockingIOError, match=f"process {writer.pid}"):
                RowFile(path, num_rows=64, width=3)
            with pytest.raises(BlockingIOError, match="has a writer"):
                data_parameters.copy(path, tmp_path / "copy.rows")
            reader = RowFile(path, num_rows=64, width=3, mode="r")
            for _ in range(50):
                rows = reader.read(slice(None))
                assert np.all(rows == rows[:, :1])
            assert rows.max() > 0
            assert data_parameters.verify(path).ok
            writer.kill()
        # The lock ends with its holder.
        RowFile(path, num_rows=64, width=3).close()

    def test_garbage_holds_no_lock(self, tmp_path):
        file = open_file(tmp_path)
        file.itself = file
        del file
        open_file(tmp_path).close()


def writing(path, *sizes):
    return subprocess.Popen(
        [sys.executable, FAULTS, "--write", path, *map(str, sizes)],
        stdout=subprocess.PIPE,
        text=True,
    )


class DeathError(Exception):
    pass


def die_before_storing(file, index, rows, monkeypatch):
    """Writes the journal and never reaches the rows."""

    def die():
        if file._pending is not None:
            raise DeathError

    monkeypatch.setattr(file, "_store_pending", die)
    with pytest.raises(DeathError):
        file.write(index, rows)
    file._release()


class TestJournal:
    index = np.array([9, 3])
    rows = np.ones((2, 3), "float32")

    def test_a_complete_one_is_played(self, tmp_path, monkeypatch, road):
        file = open_file(tmp_path)
        die_before_storing(file, self.index, self.rows, monkeypatch)
        reader = open_file(tmp_path, mode="r")
        np.testing.assert_array_equal(
            reader.read(np.array([2, 3, 3, 9, 49])).sum(axis=1), [0, 3, 3, 3, 0]
        )
        again = open_file(tmp_path)
        np.testing.assert_array_equal(again.read(self.index), self.rows)
        again.close()

    @pytest.mark.parametrize("lost", [1, 20, 60, 100])
    def test_a_torn_one_is_ignored(self, tmp_path, monkeypatch, lost):
        file = open_file(tmp_path)
        file.write(np.array([4, 3]), 2 * self.rows)
        end = file.header.journal_start + 60 + 2 * (8 + 16)
        die_before_storing(file, self.index, self.rows, monkeypatch)
        path = tmp_path / "scale.rows"
        content = bytearray(path.read_bytes())
        content[end - lost] ^= 0xFF
        path.write_bytes(content)
        for mode in ("r", "a"):
            again = open_file(tmp_path, mode=mode)
            np.testing.assert_array_equal(
                again.read(np.array([3, 4, 9]))[:, 0], [2, 2, 0]
            )
            again.close()

    def test_a_restored_copy_knows_no_later_batch(self, tmp_path):
        file = open_file(tmp_path)
        file.write(self.index, self.rows)
        data_parameters.table_files.copy_rows(file, tmp_path / "copy.rows")
        file.write(self.index, 2 * self.rows)
        file.close()
        os.replace(tmp_path / "copy.rows", tmp_path / "scale.rows")
        again = open_file(tmp_path)
        np.testing.assert_array_equal(again.read(self.index), self.rows)
        assert again.read(slice(None)).sum() == 6
        again.close()

    def test_full_disk_keeps_what_was_written(self, tmp_path, monkeypatch):
        monkeypatch.setattr(row_file, "writes_in_place", lambda path: False)
        file = open_file(tmp_path)
        file.write(self.index, self.rows)
        room = 2

        def fills_up(descriptor, parts, offset):
            nonlocal room
            room -= 1
            if room < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            row_space.write_all(descriptor, parts, offset)

        for module in (row_file, row_pages):
            monkeypatch.setattr(module, "write_all", fills_up)
        # Journal and first row fit, the second row does not.
        with pytest.raises(OSError, match="Every batch before this one"):
            file.write(self.index, 2 * self.rows)
        np.testing.assert_array_equal(file.read(self.index), 2 * self.rows)
        with pytest.raises(OSError, match="No space left"):
            file.write(np.array([3]), 3 * self.rows[:1])
        reader = open_file(tmp_path, mode="r")
        np.testing.assert_array_equal(reader.read(self.index), 2 * self.rows)
        room = 10
        file.write(np.array([3]), 3 * self.rows[:1])
        np.testing.assert_array_equal(file.read(self.index)[:, 0], [2, 3])
        file.close()


class TestDamage:
    def flip(self, path, place, bit=1):
        content = bytearray(path.read_bytes())
        content[place] ^= bit
        path.write_bytes(content)

    def written(self, folder):
        file = open_file(folder)
        rows = np.random.default_rng(0).normal(size=(40, 3))
        file.write(np.arange(40), rows.astype("float32"))
        file.write(np.arange(5), np.zeros((5, 3), "float32"))
        file.close()
        return folder / "scale.rows"

    @pytest.mark.parametrize("place", [0, 3, 11, 17, 15])
    def test_flipped_bit_in_a_row(self, tmp_path, place):
        path = self.written(tmp_path)
        self.flip(path, 4096 + 16 * 20 + place)
        file = open_file(tmp_path)
        number = 20 + place // 16
        with pytest.raises(ValueError, match=f"damaged.*such as .{number}"):
            file.read(np.array([1, 20, 21]))
        assert file.read(np.array([1, 22])).shape == (2, 3)
        file.close()
        report = data_parameters.verify(path)
        assert report.damaged == [number]
        assert "1 row(s)" in str(report)
        with pytest.raises(ValueError, match="damaged"):
            data_parameters.copy(path, tmp_path / "copy.rows")
        assert sorted(os.listdir(tmp_path)) == ["scale.rows"]

    @pytest.mark.parametrize("place", [1, 9, 17, 30, 200])
    def test_flipped_bit_in_the_header(self, tmp_path, place):
        path = self.written(tmp_path)
        self.flip(path, place)
        with pytest.raises(ValueError, match=r"not a table|header .* damaged"):
            open_file(tmp_path)

    def test_cut(self, tmp_path):
        path = self.written(tmp_path)
        os.truncate(path, 4096 + 16 * 30)
        with pytest.raises(ValueError, match="is cut.*Received"):
            open_file(tmp_path)
        assert "is cut" in str(data_parameters.verify(path))

    def test_cut_journal_loses_nothing_that_was_stored(self, tmp_path):
        path = self.written(tmp_path)
        expected = open_file(tmp_path, mode="r").read(slice(None))
        os.truncate(path, 2 * 4096 + 5)
        file = open_file(tmp_path)
        np.testing.assert_array_equal(file.read(slice(None)), expected)
        file.write(np.arange(9), np.ones((9, 3), "float32"))
        assert file.read(np.arange(9)).sum() == 27
        file.close()

    def test_rows_that_are_not_finite(self, tmp_path):
        file = open_file(tmp_path)
        rows = np.array([[1, 2, 3], [1, np.nan, 3]], "float32")
        with pytest.raises(ValueError, match=r"finite.*1 row\(s\)"):
            file.write(np.array([1, 2]), rows)
        assert not file.read(slice(None)).any()
        file.close()


def test_verify_tells_what_is_there(tmp_path):
    file = open_file(tmp_path)
    file.write(np.array([4, 7]), np.ones((2, 3), "float32"))
    file.close()
    report = data_parameters.verify(tmp_path / "scale.rows")
    assert report.ok
    assert "2 of 50 rows written" in str(report)
    assert "likelihood: normal" in str(report)


def test_copy(tmp_path):
    file = open_file(tmp_path)
    file.write(np.array([4, 7]), np.ones((2, 3), "float32"))
    file.close()
    source, target = tmp_path / "scale.rows", tmp_path / "copy.rows"
    data_parameters.copy(source, target)
    copied = open_file(tmp_path, "copy.rows")
    np.testing.assert_array_equal(
        copied.read(slice(None)), open_file(tmp_path).read(slice(None))
    )
    copied.close()
    with pytest.raises(FileExistsError, match="must not exist"):
        data_parameters.copy(source, target)


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11])
def test_killed_in_the_middle_of_writing(tmp_path, delay):
    path = tmp_path / "scale.rows"
    with writing(path) as writer:
        reported = [writer.stdout.readline()]
        time.sleep(delay)
        writer.send_signal(signal.SIGKILL)
        reported += writer.stdout.read().split()
    last = int(reported[-1])
    file = RowFile(path, num_rows=64, width=20000)
    rows = file.read(np.arange(64))
    file.close()
    # Each batch is whole, the last reported write is there, and at most one
    # that was under way is there too.
    batches = [rows[:32], rows[32:]]
    steps = [batch[0, 0] for batch in batches]
    for batch, step in zip(batches, steps, strict=True):
        assert np.all(batch == step)
    assert max(steps) in (last, last + 1)
    assert min(steps) == max(steps) - 1


def test_a_few_of_the_faults():
    subprocess.run(
        [
            sys.executable,
            FAULTS,
            *"--kills 3 --disks 2 --bytes 60 --pairs 1 --no-files".split(),
        ],
        check=True,
    )
