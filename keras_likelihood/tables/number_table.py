"""Tables as numbers without missing values."""

from typing import Any

import numpy as np

from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.tables.columns import learn_column, notes_of
from keras_likelihood.tables.reading import check_target, read_file


class NumberTable:
    """A table in a file as numbers `x`, `(rows, names)`, NaN if missing.

    Dates are days since 1970, and texts with at most 20 different values are
    one-hot encoded. Other texts, empty columns and a saved index are omitted;
    `notes` says which. `y` has the cells of the column `target`, "" for the
    last. `changed` says whether columns other than numbers were encoded.
    `cells` are the columns of the file, if it was read before.
    """

    def __init__(
        self,
        path: Path,
        target: str | None = None,
        cells: dict[str, Array] | None = None,
    ):
        self.notes: list[str] = []
        cells = dict(cells or read_file(path, self.notes.append))
        self.target = [*cells][-1] if target == "" else target
        self.y = None
        if self.target is not None:
            check_target(self.target, [*cells], f"{path}: ")
            self.y = cells.pop(self.target)
        columns = [learn_column(k, v, one_hot=True) for k, v in cells.items()]
        self.notes += notes_of(columns, [*cells.values()])
        used = [column for column in columns if column.kind != "ignored"]
        if not used:
            notes = " ".join(f"{note}." for note in self.notes)
            raise ValueError(
                f"{path}: no column can be used as numbers. {notes}"
            )
        self.changed = any(column.kind != "number" for column in used)
        self.names: list[str] = []
        parts = []
        for column in used:
            column.levels.sort()
            levels = [f"{column.name} = {level}" for level in column.levels]
            self.names += levels or [column.label]
            values = column.encode(cells[column.name])
            if levels:
                values = values[:, None] == 1 + np.arange(len(levels))
            parts.append(values)
        self.x = np.column_stack(parts).astype("float64", copy=False)

    def filled(self) -> tuple[Array, list[str]]:
        """`x` and `names`, with missing values filled and indicated."""
        return fill_missing(self.x), filled_names(self.x, self.names)


def fill_missing(x: Any) -> Array:
    """Fills the missing values (NaN) of a table.

    A missing value becomes the median of its column. For each column with
    missing values an indicator column is added at the end, 1 where the value
    is missing and 0 elsewhere, because missingness may be informative.

    >>> x = np.array([[1.0, 5.0], [3.0, np.nan], [4.0, 7.0]])
    >>> kl.auditing.fill_missing(x)
    array([[1., 5., 0.],
           [3., 6., 1.],
           [4., 7., 0.]])

    Args:
        x: `(n, features)`. Arrays of other shapes are returned unchanged.

    Returns:
        `(n, features + columns with missing values)`.
    """
    table: Array = np.asarray(x)
    missing = _missing(table)
    if not missing.any():
        return table
    # An empty column has no median.
    middle = np.nanmedian(np.where(missing.all(axis=0), 0, table), axis=0)
    filled = np.where(missing, middle, table)
    return np.column_stack([filled, missing[:, missing.any(axis=0)]])


def filled_names(x: Any, names: list[str]) -> list[str]:
    """Names of the columns that `fill_missing` returns."""
    some = np.flatnonzero(_missing(x).any(axis=0))
    return [*names, *(f"{names[at]} is missing" for at in some)]


def _missing(x: Array) -> Array:
    is_table = x.ndim == 2 and x.dtype.kind == "f"
    return np.isnan(x) if is_table else np.zeros((1, 1), bool)
