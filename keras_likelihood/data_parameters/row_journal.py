"""The batch that is on its way into a table."""

import struct
import zlib

import numpy as np

_START = struct.Struct("<8s32sqqI")
_MAGIC = b"KLBATCH2"


class RowJournal:
    """Packs a batch of rows for the journal and reads it back.

    A batch counts only if it is whole: the checksum covers the numbers of
    its rows and their checks, and the checks cover the rows.

    Args:
        header: the `RowHeader` of the table.
        checks: the `RowChecks` of its rows.
    """

    def __init__(self, header, checks):
        self._header = header
        self._checks = checks

    def pack(self, sequence: int, index: np.ndarray, checked: np.ndarray):
        """Pieces to write one after the other.

        Args:
            sequence: number of the batch, larger than those before.
            index: row numbers `(batch,)`, `<i8`.
            checked: rows with their checks, `(batch, width + 1)`, `<f4`.
        """
        checksum = self._checksum(sequence, index, checked)
        identity = self._header.identity.encode()
        start = _START.pack(_MAGIC, identity, sequence, len(index), checksum)
        return [start, index, checked]

    def unpack(self, read):
        """`(sequence, index, checked)` of a whole batch, else `None`.

        Args:
            read: `read(offset, length)` gives bytes of the journal, fewer at
                its end.
        """
        start = read(0, _START.size)
        if len(start) < _START.size:
            return None
        magic, identity, sequence, count, checksum = _START.unpack(start)
        header = self._header
        if (
            magic != _MAGIC
            or identity != header.identity.encode()
            or not 0 <= count <= header.num_rows
        ):
            return None
        length = count * (8 + header.stride)
        payload = read(_START.size, length)
        if len(payload) != length:
            return None
        index = np.frombuffer(payload, "<i8", count)
        checked = np.frombuffer(payload, "<f4", offset=8 * count)
        checked = checked.reshape(count, -1)
        if (
            self._checksum(sequence, index, checked) != checksum
            or np.any((index < 0) | (index >= header.num_rows))
            or self._checks.damaged(index, checked).any()
        ):
            return None
        return sequence, index, checked

    def overlay(self, rows: np.ndarray, numbers: np.ndarray, read):
        """Puts rows of the journal's batch in the place of those in `rows`.

        Args:
            rows: with their checks, `(batch, width + 1)`; changed.
            numbers: of these rows.
            read: as in `unpack`.
        """
        batch = self.unpack(read)
        if batch is None or not len(batch[1]):
            return
        _, written, checked = batch
        order = np.argsort(written, kind="stable")
        place = np.searchsorted(written[order], numbers, side="right") - 1
        found = written[order][place] == numbers
        rows[found] = checked[order[place[found]]]

    @staticmethod
    def _checksum(sequence, index, checked):
        checks = np.ascontiguousarray(checked[:, -1])
        seed = zlib.crc32(struct.pack("<qq", sequence, len(index)))
        return zlib.crc32(checks, zlib.crc32(index, seed))
