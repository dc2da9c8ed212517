"""Rows of numbers in a file, changed all or nothing a batch at a time."""

import contextlib
import os
import threading

import numpy as np

from keras_likelihood.data_parameters.row_checks import RowChecks
from keras_likelihood.data_parameters.row_header import RowHeader
from keras_likelihood.data_parameters.row_journal import RowJournal
from keras_likelihood.data_parameters.row_pages import RowPages
from keras_likelihood.data_parameters.row_space import (
    create,
    explained,
    reserve,
    write_all,
    writes_in_place,
)
from keras_likelihood.data_parameters.writer_lock import WriterLock


class RowFile:
    """A file of rows that has one writer, any readers and a journal inside.

        header  4,096 bytes: magic, version, owner, number and width of rows
        rows    float32, little-endian, each with a check number
        journal the batch that was written last

    `write` first puts the batch into the journal and then into the rows, and
    the next writer plays a complete journal again. So if the process dies at
    any instruction, each batch is in the file as a whole or not at all, and
    no completed `write` is lost. After a power failure that holds only with
    `sync=True`, which waits for the disk twice a batch.

    The space of all rows is reserved when the file is made, so that a disk
    that is too small says so before the training. A disk that fills up later
    is an `OSError`, and all batches before it are kept.

    Args:
        path: of the table.
        num_rows: number of rows, zero at first.
        width: float32 numbers in a row.
        owner: whose rows these are; see `RowHeader`. A file of another owner
            is refused.
        mode: `"a"` continues a table or makes one, `"r+"` continues one,
            `"r"` reads one, without a lock and without changing a byte.
            Defaults to `"a"`.
        sync: wait for the disk. Defaults to False.

    >>> file = RowFile("scale.rows", num_rows=10**6, width=2)
    >>> file.write(np.array([3]), np.array([[1.0, 2.0]], "float32"))
    >>> file.read(np.array([3, 4]))
    array([[1., 2.],
           [0., 0.]], dtype=float32)
    """

    def __init__(
        self,
        path,
        *,
        num_rows: int,
        width: int,
        owner: dict | None = None,
        mode: str = "a",
        sync: bool = False,
    ):
        self.path = os.path.abspath(path)
        self.sync = sync
        self._descriptor = self._lock = None
        expected = RowHeader(int(num_rows), int(width), dict(owner or {}))
        if mode == "a" and not os.path.lexists(self.path):
            create(self.path, expected)
        self.header = RowHeader.read(self.path)
        expected.check(self.path, self.header)
        self._open(mode)

    @classmethod
    def of(cls, path, mode: str = "r") -> "RowFile":
        """Opens the table at `path`, whoever owns it."""
        header = RowHeader.read(path)
        return cls(
            path,
            num_rows=header.num_rows,
            width=header.width,
            owner=header.owner,
            mode=mode,
        )

    def _open(self, mode):
        self._checks = RowChecks(self.header.width)
        self._journal = RowJournal(self.header, self._checks)
        self._guard = threading.Lock()
        self._pending = None
        self._sequence = self._room = 0
        writes = mode != "r"
        if writes:
            self._lock = WriterLock(self.path)
        self._descriptor = os.open(
            self.path, os.O_RDWR if writes else os.O_RDONLY
        )
        self._pages = RowPages(
            self._descriptor,
            self.header,
            mapped=writes and not self.sync and writes_in_place(self.path),
        )
        if writes:
            self._replay()

    @property
    def shape(self) -> tuple:
        return self.header.num_rows, self.header.width

    @property
    def writes(self) -> bool:
        """Whether this process may write."""
        return self._lock is not None and self._lock.held

    def read(self, index) -> np.ndarray:
        """Copy of the rows `index`, integers or a slice, `(batch, width)`."""
        return self.read_checked(index)[:, :-1]

    def read_checked(self, index) -> np.ndarray:
        """As `read`, with the check numbers in a last column."""
        rows, damaged = self.examine(index)
        if damaged.any():
            first = self._numbers(index)[damaged][:5].tolist()
            raise ValueError(
                f"{self.path} is damaged; bring back a copy, or see "
                "`kl.data_parameters.verify`. Received: "
                f"{int(damaged.sum())} row(s) that do not fit their check "
                f"number, such as {first}"
            )
        return rows

    def examine(self, index) -> tuple:
        """Rows with their checks, and which of them are damaged."""
        numbers = self._numbers(index)
        # A reader may look while the writer is in the middle of a row, which
        # is then in the journal.
        for _ in range(20):
            rows = self._newest(index, numbers)
            damaged = self._checks.damaged(numbers, rows)
            if not damaged.any() or self._lock is not None:
                break
        return rows, damaged

    def _numbers(self, index):
        if isinstance(index, slice):
            return np.arange(*index.indices(self.header.num_rows))
        return np.asarray(index)

    def _newest(self, index, numbers):
        rows = self._pages.fetch(index, numbers)
        if self._lock is not None and self._pending is None:
            return rows
        self._journal.overlay(rows, numbers, self._read_journal)
        return rows

    def write(self, index: np.ndarray, rows: np.ndarray):
        """Replaces the rows `index` by `rows`, all of them or none."""
        self._refuse_writing(rows)
        index = np.ascontiguousarray(index, "<i8")
        checked = self._checks.append(index, np.asarray(rows, "<f4"))
        with self._guard:
            try:
                self._store_pending()
                self._sequence += 1
                self._write_journal(index, checked)
                self._pending = index, checked
                self._store_pending()
            except OSError as error:
                raise explained(error, self.path) from error

    def _refuse_writing(self, rows):
        if not self.writes:
            raise ValueError(
                f"{self.path} is open for reading here; the process that "
                "opened it for writing alone writes. Received: `write`"
            )
        if not np.isfinite(rows).all():
            raise ValueError(
                "Rows must be finite, so the batch is not written. Received: "
                f"{int((~np.isfinite(rows)).any(axis=1).sum())} row(s) with "
                "NaN or infinity"
            )

    def _write_journal(self, index, checked):
        parts = self._journal.pack(self._sequence, index, checked)
        length = sum(memoryview(part).nbytes for part in parts)
        start = self.header.journal_start
        if length > self._room:
            reserve(self._descriptor, start, length, self.path)
            self._room = length
        write_all(self._descriptor, parts, start)
        if self.sync:
            os.fsync(self._descriptor)

    def _store_pending(self):
        if self._pending is None:
            return
        self._pages.store(*self._pending)
        if self.sync:
            os.fsync(self._descriptor)
        self._pending = None

    def _replay(self):
        batch = self._journal.unpack(self._read_journal)
        size = os.fstat(self._descriptor).st_size
        self._room = size - self.header.journal_start
        if batch is None:
            # There is none, or it was torn while it was written: then the
            # rows have not been touched since the batch before.
            return
        self._sequence, *self._pending = batch
        try:
            self._store_pending()
        except OSError as error:
            raise explained(error, self.path) from error

    def _read_journal(self, offset, length):
        start = self.header.journal_start + offset
        return os.pread(self._descriptor, length, start)

    def prefetch(self, index: np.ndarray):
        """Starts to bring rows that are soon read into memory."""
        pages = self._pages
        # A hint alone: threads that give it may come after `close`.
        with contextlib.suppress(OSError):
            if pages is not None:
                pages.prefetch(np.asarray(index))

    def resting(self):
        """The context in which no batch is written."""
        return self._guard

    def flush(self):
        """Waits until all that was written is on the disk."""
        if self.writes:
            self._pages.flush()
            os.fsync(self._descriptor)

    def close(self):
        """Waits for the disk and lets others write."""
        if self._descriptor is None:
            return
        try:
            self.flush()
        finally:
            self._release()

    def _release(self):
        descriptor, self._descriptor = self._descriptor, None
        self._pages = None
        if descriptor is not None:
            os.close(descriptor)
        if self._lock is not None:
            self._lock.release()

    def __del__(self):
        if getattr(self, "_descriptor", None) is not None:
            self._release()
