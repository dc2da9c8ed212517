"""Rows of numbers in a file, changed all or nothing a batch at a time."""

import mmap
import os
import struct
import threading
import zlib

import numpy as np

_HEADER = struct.Struct("<8sqqI")
_MAGIC = b"KLROWS01"


class RowFile:
    """A memory-mapped `.npy` file of rows with a journal beside it.

    Rows are zero at first and take no room on disk until they are written.

    `write` first puts the batch into the journal `<path>.journal` and then
    into the table, and `open` plays a complete journal again. So if the
    process dies at any instruction, every row is in its old or in its new
    state, and so is each batch as a whole; no completed `write` is lost. A
    power failure is another matter, as the system may not have written what
    it was given: with `sync=True` the same holds there too, at the price of
    waiting for the disk twice a batch.

    Args:
        path: of the table. An existing one is continued.
        num_rows: number of rows.
        width: numbers in a row, float32.
        sync: wait for the disk. Defaults to False.

    >>> file = RowFile("rows.npy", num_rows=10**6, width=2)
    >>> file.write(np.array([3]), np.array([[1.0, 2.0]], "float32"))
    >>> file.read(np.array([3, 4]))
    array([[1., 2.],
           [0., 0.]], dtype=float32)
    """

    def __init__(self, path, *, num_rows: int, width: int, sync: bool = False):
        self.path = os.path.abspath(path)
        self.sync = sync
        if not os.path.exists(self.path):
            _create(self.path, (num_rows, width))
        self._map, self._rows = _open(self.path)
        if self._rows.shape != (num_rows, width):
            raise ValueError(
                f"{self.path} holds rows of another table; give another path "
                f"or remove it. Expected: shape {(num_rows, width)}. "
                f"Received: {self._rows.shape}"
            )
        self._journal = os.open(
            self.path + ".journal", os.O_RDWR | os.O_CREAT, 0o644
        )
        self._replay()
        self._ahead = None

    @property
    def shape(self) -> tuple:
        return self._rows.shape

    def read(self, index: np.ndarray) -> np.ndarray:
        """Copy of the rows `index`, `(batch, width)`."""
        return self._rows[index]

    def write(self, index: np.ndarray, rows: np.ndarray):
        """Replaces the rows `index` by `rows`, all of them or none."""
        index = np.ascontiguousarray(index, "<i8")
        rows = np.ascontiguousarray(rows, "<f4")
        checksum = zlib.crc32(rows, zlib.crc32(index))
        header = _HEADER.pack(_MAGIC, len(index), rows.shape[1], checksum)
        _write_all(self._journal, [header, index, rows])
        if self.sync:
            os.fsync(self._journal)
        self._rows[index] = rows
        if self.sync:
            self._map.flush()

    def announce(self, index: np.ndarray):
        """Starts to bring rows that are soon read into memory."""
        if self._ahead is not None:
            self._ahead.join()
        # Reading maps the pages; the copy itself is not needed.
        self._ahead = threading.Thread(
            target=self.read, args=(np.asarray(index),), daemon=True
        )
        self._ahead.start()

    def flush(self):
        """Waits until all that was written is on the disk."""
        self._map.flush()
        os.fsync(self._journal)

    def close(self):
        if self._journal is None:
            return
        if self._ahead is not None:
            self._ahead.join()
        self.flush()
        os.close(self._journal)
        self._journal = None

    def __del__(self):
        if getattr(self, "_journal", None) is not None:
            os.close(self._journal)

    def _replay(self):
        size = os.fstat(self._journal).st_size
        content = os.pread(self._journal, size, 0)
        if len(content) < _HEADER.size:
            return
        magic, count, width, checksum = _HEADER.unpack_from(content)
        length = count * (8 + 4 * width)
        payload = content[_HEADER.size : _HEADER.size + length]
        if (
            magic != _MAGIC
            or width != self._rows.shape[1]
            or len(payload) != length
            or zlib.crc32(payload) != checksum
        ):
            # Torn while it was written: the table has not been touched since
            # the batch before, which is in it.
            return
        index = np.frombuffer(payload, "<i8", count)
        rows = np.frombuffer(payload, "<f4", offset=8 * count)
        self._rows[index] = rows.reshape(count, width)


def _create(path, shape):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # Under its own name only when it is complete.
    partial = f"{path}.{os.getpid()}.partial"
    np.lib.format.open_memmap(
        partial, mode="w+", dtype="<f4", shape=shape
    ).flush()
    if os.path.exists(path + ".journal"):
        os.remove(path + ".journal")
    os.replace(partial, path)


def _open(path):
    """The memory map of a `.npy` file and the array in it."""
    with open(path, "r+b") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        offset = file.tell()
        mapped = mmap.mmap(file.fileno(), 0)
    if hasattr(mmap, "MADV_RANDOM"):
        # Rows are visited at random: reading on behind each of them would
        # cost many times the row.
        mapped.madvise(mmap.MADV_RANDOM)
    return mapped, np.ndarray(shape, dtype, buffer=mapped, offset=offset)


def _write_all(descriptor, parts):
    views = [memoryview(part).cast("B") for part in parts]
    offset = 0
    while views:
        written = os.pwritev(descriptor, views, offset)
        offset += written
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if views:
            views[0] = views[0][written:]
