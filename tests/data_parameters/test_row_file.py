"""A file of rows: contents, journal and sudden death."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from keras_likelihood.data_parameters import row_file
from keras_likelihood.data_parameters.row_file import RowFile


def open_file(folder, **options):
    return RowFile(
        folder / "rows.npy", **{"num_rows": 50, "width": 3, **options}
    )


def test_starts_at_zero_and_keeps_what_is_written(tmp_path, rng):
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
    np.testing.assert_array_equal(again.read(np.arange(50)), expected)
    again.close()


def test_takes_no_room_before_it_is_written(tmp_path):
    file = open_file(tmp_path, num_rows=10**8, width=4)
    file.write(np.array([10**8 - 1]), np.ones((1, 4), "float32"))
    status = os.stat(tmp_path / "rows.npy")
    assert status.st_size > 1.6e9
    assert status.st_blocks * 512 < 1e6
    file.close()


def test_reads_announced_rows(tmp_path):
    file = open_file(tmp_path)
    file.write(np.array([4]), np.ones((1, 3), "float32"))
    file.announce(np.array([4, 5]))
    file.announce(np.array([6]))
    assert file.read(np.array([4, 6])).sum() == 3
    file.close()


def test_refuses_the_file_of_another_table(tmp_path):
    open_file(tmp_path).close()
    with pytest.raises(ValueError, match="rows of another table"):
        open_file(tmp_path, width=4)


def death_between_journal_and_table(file, index, rows, monkeypatch):
    """Writes the journal and never reaches the table."""

    class DeathError(Exception):
        pass

    class Unreachable:
        shape = (50, 3)

        def __setitem__(self, index, rows):
            raise DeathError

    monkeypatch.setattr(file, "_rows", Unreachable())
    with pytest.raises(DeathError):
        file.write(index, rows)
    monkeypatch.undo()


def test_plays_a_complete_journal(tmp_path, monkeypatch):
    file = open_file(tmp_path)
    index, rows = np.array([3, 9]), np.ones((2, 3), "float32")
    death_between_journal_and_table(file, index, rows, monkeypatch)
    assert not file.read(index).any()
    again = open_file(tmp_path)
    np.testing.assert_array_equal(again.read(index), rows)
    again.close()
    file.close()


@pytest.mark.parametrize("lost", [1, 20, 60])
def test_ignores_a_torn_journal(tmp_path, monkeypatch, lost):
    file = open_file(tmp_path)
    index, rows = np.array([3, 9]), np.ones((2, 3), "float32")
    file.write(np.array([3, 4]), 2 * rows)
    death_between_journal_and_table(file, index, rows, monkeypatch)
    journal = tmp_path / "rows.npy.journal"
    content = bytearray(journal.read_bytes())
    content[-lost] ^= 0xFF
    journal.write_bytes(content)
    again = open_file(tmp_path)
    np.testing.assert_array_equal(
        again.read(np.array([3, 4, 9]))[:, 0], [2, 2, 0]
    )
    again.close()
    file.close()


WRITER = """
    import runpy
    import sys
    import numpy as np

    RowFile = runpy.run_path(sys.argv[2])["RowFile"]
    file = RowFile(sys.argv[1], num_rows=64, width=20000)
    batches = np.arange(64).reshape(2, 32)
    for step in range(1, 10**6):
        rows = np.full((32, 20000), step, "float32")
        file.write(batches[step % 2], rows)
        print(step, flush=True)
"""


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11])
def test_killed_in_the_middle_of_writing(tmp_path, delay):
    path = tmp_path / "rows.npy"
    program = textwrap.dedent(WRITER)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path), row_file.__file__],
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
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
