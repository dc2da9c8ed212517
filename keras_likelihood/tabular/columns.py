"""The columns of a table: what kind each is, and its values as numbers."""

import dataclasses

import numpy as np

from keras_likelihood.backend.csv_tables import dates, is_missing

MOST_COLUMNS = 10_000
MOST_LEVELS = 250
"""Categories beyond the most frequent ones count as unseen."""
_ENOUGH = 0.95
"""Share of readable cells from which a text column holds numbers or dates."""
_LARGEST = 1e37
"""Numbers are cut here, because Keras computes in float32."""


@dataclasses.dataclass
class Column:
    """How one column of a table is read.

    Args:
        name: its name.
        kind: `"number"`, `"date"` (read as days since 1970), `"category"`,
            or `"ignored"` if it says nothing: it is constant, empty, or a
            text that differs in nearly every row.
        levels: the categories with a code of their own. The code of the
            first is 1, and the code 0 is for all others.
    """

    name: str
    kind: str
    levels: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "date")

    def encode(self, cells: np.ndarray) -> np.ndarray:
        """Cells as float64 `(n,)`: numbers or codes; NaN where missing."""
        if self.kind == "ignored":
            return np.zeros(len(cells))
        if self.kind == "category":
            codes = {level: code for code, level in enumerate(self.levels, 1)}
            texts = as_texts(cells)
            return np.array(
                [np.nan if t is None else codes.get(t, 0.0) for t in texts]
            )
        numbers = as_days(cells) if self.kind == "date" else as_numbers(cells)
        return np.clip(numbers, -_LARGEST, _LARGEST)


def read_table(table) -> tuple[list[str] | None, list[np.ndarray]]:
    """Names and cells of the columns of a table.

    Args:
        table: a pandas or polars DataFrame, a dict of columns, or an array
            `(rows, columns)`, which has no names.
    """
    if isinstance(table, dict):
        cells = [np.asarray(v) for v in table.values()]
        return list(map(str, table)), cells
    if not hasattr(table, "columns"):
        return None, list(np.asarray(table).T)
    if hasattr(table, "iloc"):
        # pandas allows two columns of the same name.
        places = range(len(table.columns))
        cells = [table.iloc[:, at].to_numpy() for at in places]
    else:
        cells = [table[name].to_numpy() for name in table.columns]
    return list(map(str, table.columns)), cells


def learn_column(name: str, cells: np.ndarray) -> Column:
    """Finds out of which kind a column is."""
    if cells.dtype.kind in "biuf":
        numbers = as_numbers(cells)
        return Column(name, "number" if _varies(numbers) else "ignored")
    if cells.dtype.kind == "M":
        return Column(name, "date" if _varies(as_days(cells)) else "ignored")
    texts = as_texts(cells)
    known = [text for text in texts if text is not None]
    for kind, read in {"number": as_numbers, "date": as_days}.items():
        numbers = read(cells)
        if np.isfinite(numbers).sum() >= _ENOUGH * max(len(known), 1):
            return Column(name, kind if _varies(numbers) else "ignored")
    levels, counts = np.unique(known, return_counts=True)
    is_unique = len(levels) > 20 and len(levels) > 0.5 * len(known)
    if len(levels) + (len(known) < len(texts)) < 2 or is_unique:
        return Column(name, "ignored")
    order = np.argsort(-counts, kind="stable")[:MOST_LEVELS]
    return Column(name, "category", [str(v) for v in levels[order]])


def as_numbers(cells) -> np.ndarray:
    """Cells as float64; NaN where a cell is not a finite number."""
    try:
        numbers = np.asarray(cells, "float64")
    except (TypeError, ValueError):
        numbers = np.array([_number(cell) for cell in cells], "float64")
    return np.where(np.isfinite(numbers), numbers, np.nan)


def as_days(cells) -> np.ndarray:
    """Cells as days since 1970; NaN where a cell is not a date."""
    cells = np.asarray(cells)
    if cells.dtype.kind == "M":
        days = cells.astype("datetime64[ns]").astype("float64") / 86_400e9
        return np.where(np.isnat(cells), np.nan, days)
    return dates([text or "" for text in as_texts(cells)])


def as_texts(cells) -> list[str | None]:
    """Cells as texts, `None` where a cell says that a value is missing."""
    # NaN is not equal to itself, and pandas.NA is neither true nor false.
    return [
        None if is_missing(text := str(cell)) or text in _NOTHING else text
        for cell in np.asarray(cells).tolist()
    ]


_NOTHING = {"<NA>", "NaT"}
"""How pandas writes a missing value of its own."""


def _number(cell):
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def _varies(numbers):
    """Whether values differ, or some are missing."""
    known = numbers[np.isfinite(numbers)]
    some_missing = len(known) < len(numbers)
    return len(known) > 0 and (some_missing or known.min() < known.max())
