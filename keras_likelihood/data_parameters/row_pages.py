"""The part of a table on disk where the rows lie."""

import errno
import mmap
import os

import numpy as np

from keras_likelihood.data_parameters.row_header import HEADER_BYTES
from keras_likelihood.data_parameters.row_space import write_all


class RowPages:
    """Fetches and stores rows, through a memory map or calls of the system.

    A memory map is some ten times faster for narrow rows. But where space
    is not reserved for the file, a full disk kills the process that uses the
    map. Calls of the system raise an `OSError` instead.

    Args:
        descriptor: of the open file.
        header: its `RowHeader`.
        mapped: whether to use a memory map.
    """

    def __init__(self, descriptor: int, header, *, mapped: bool):
        self._descriptor = descriptor
        self._header = header
        self._map = self._table = None
        if mapped:
            self._map = mmap.mmap(descriptor, header.journal_start)
            self._table = np.ndarray(
                (header.num_rows, header.width + 1),
                "<f4",
                buffer=self._map,
                offset=HEADER_BYTES,
            )
        if self._map is not None and hasattr(mmap, "MADV_RANDOM"):
            # Rows are visited at random: reading on behind each of them would
            # cost many times the row.
            self._map.madvise(mmap.MADV_RANDOM)

    def fetch(self, index, numbers: np.ndarray) -> np.ndarray:
        """Copy of rows with their checks, `(batch, width + 1)`.

        Args:
            index: integers or a slice.
            numbers: the integers that `index` stands for.
        """
        if self._table is not None:
            return np.array(self._table[index])
        stride = self._header.stride
        content = bytearray(len(numbers) * stride)
        if isinstance(index, slice) and index.step in (None, 1):
            if len(numbers):
                self._read(content, numbers[0])
        else:
            view = memoryview(content)
            for place, number in enumerate(numbers.tolist()):
                start = place * stride
                self._read(view[start : start + stride], number)
        return np.frombuffer(content, "<f4").reshape(
            len(numbers), self._header.width + 1
        )

    def _read(self, target, number):
        place = self._place(number)
        view = memoryview(target)
        while len(view):
            count = os.preadv(self._descriptor, [view], place)
            if not count:
                raise OSError(errno.EIO, "The table was cut while it was open")
            view, place = view[count:], place + count

    def store(self, index: np.ndarray, checked: np.ndarray):
        """Puts rows with their checks in their place."""
        if self._table is not None:
            self._table[index] = checked
            return
        for number, row in zip(index.tolist(), checked, strict=True):
            write_all(self._descriptor, [row], self._place(number))

    def prefetch(self, index: np.ndarray):
        """Starts to bring rows that are soon read into memory."""
        if not hasattr(os, "posix_fadvise"):
            return
        for number in index.tolist():
            os.posix_fadvise(
                self._descriptor,
                self._place(number),
                self._header.stride,
                os.POSIX_FADV_WILLNEED,
            )

    def flush(self):
        """Hands what the memory map holds to the file."""
        if self._map is not None:
            self._map.flush()

    def _place(self, number):
        return HEADER_BYTES + int(number) * self._header.stride
