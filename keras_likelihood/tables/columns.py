"""Kinds of the columns of a table, and conversion of cells to numbers."""

import collections
import dataclasses
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.tables.dates import ISO, as_days, find_format

MOST_COLUMNS = 10_000
MOST_LEVELS = 250
"""Maximum number of categories. Less frequent ones are treated as unseen."""
MOST_ONE_HOT = 20
"""The same for columns that are one-hot encoded without a network."""
_LARGEST = 1e37
"""Numbers are clipped here, because Keras computes in float32."""
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?"}
_MISSING |= {"<na>", "nat"}  # as pandas writes it
_ENOUGH = 0.95
"""Minimum fraction of readable cells in a column of numbers or dates."""
_SAMPLE = 200
"""About as many texts are tested for dates, because parsing is slow."""
_FAR = 1000
"""Spreads from zero at which a column is centered before the cast."""


def is_missing(cell: str) -> bool:
    """Whether a text means a missing value."""
    return cell.strip().lower() in _MISSING


def has_value(cells: Array) -> Array:
    """Mask `(n,)` of the cells that have a value."""
    if cells.dtype.kind in "biuf":
        return ~np.isnan(cells)
    if cells.dtype.kind == "M":
        return ~np.isnat(cells)
    return np.array([text is not None for text in as_texts(cells)], bool)


def as_words(cells: Any) -> list[str]:
    """Cells as texts, with whole numbers without decimals."""
    words = []
    for cell in np.asarray(cells).tolist():
        if isinstance(cell, float) and cell.is_integer():
            cell = int(cell)
        words.append(str(cell).strip())
    return words


def as_texts(cells: Any) -> list[str | None]:
    """As `as_words`, but `None` for missing cells."""
    return [None if is_missing(word) else word for word in as_words(cells)]


def as_numbers(cells: Any) -> Array:
    """Cells as float64, NaN for cells that are not numbers."""
    try:
        return np.asarray(cells, "float64")
    except (TypeError, ValueError):
        return np.array([as_number(cell) for cell in cells], "float64")


def as_number(cell: Any) -> float:
    """A cell as a number, or NaN."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def digits(value: float) -> str:
    """Four digits of a number, without an exponent up to a million.

    >>> digits(56902.1), digits(12.2)
    ('56,900', '12.20')
    """
    if 1e4 <= abs(value) < 1e6:
        return f"{float(f'{value:.4g}'):,.0f}"
    return f"{value:#.4g}".rstrip(".")


def is_numeric(cells: Array) -> bool:
    """Whether nearly all cells that have a value are numbers."""
    if cells.dtype.kind in "biuf":
        return True
    if cells.dtype.kind == "M":
        return False
    count = (~np.isnan(as_numbers(cells))).sum()
    return bool(count and count >= _ENOUGH * has_value(cells).sum())


def refuse_nan(values: Array, name: str) -> None:
    """Raises an error if rows `(n, ...)` have NaN or infinite values."""
    if values.dtype.kind != "f":
        return
    # Minimum and maximum suffice and avoid a mask.
    ends = values.min(initial=0), values.max(initial=0)
    if not np.isfinite(ends).all():
        bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        raise ValueError(
            f"{name} must be finite. Received: NaN or infinite values in "
            f"{int(bad.sum())} row(s), the first at {int(bad.argmax())}"
        )


def middle_and_spread(values: Array) -> tuple[float, float]:
    """The median, and a standard deviation that outliers hardly change."""
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    # The quartiles are equal if most of the values are.
    return middle, (high - low) / 1.349 or values.std()


def refuse_rounding(values: Array, name: str) -> None:
    """Raises an error if float32 would round the differences of numbers."""
    middle, spread = middle_and_spread(values)
    if abs(middle) > 1e5 * spread:
        raise ValueError(
            f"{name} must be closer to zero, because float32 rounds their "
            "differences. Subtract a constant, and add it to the predictions. "
            f"Received: values around {middle:g} with a spread of {spread:.3g}"
        )


@dataclasses.dataclass
class Column:
    """Encoding of one column of a table.

    `kind` is "number", "date" (encoded as days since 1970, UTC), "category",
    or "ignored", with the reason in `note`. The codes of `levels` are 1, 2,
    ..., and 0 is the code of unseen levels. `date_format` is "ISO" or a format
    of `strptime`. `offset` is subtracted from numbers far from zero, because
    float32 would round their differences.
    """

    name: str
    kind: str
    levels: list[str] = dataclasses.field(default_factory=list)
    date_format: str = ISO
    offset: float = 0.0
    note: str = ""

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "date")

    @property
    def label(self) -> str:
        """The name, with the unit of dates."""
        return self.name + " (days since 1970)" * (self.kind == "date")

    def encode(self, cells: Array) -> Array:
        """Cells as float64 `(n,)`: numbers or codes, NaN if missing."""
        if self.kind == "ignored":
            return np.zeros(len(cells))
        if self.kind == "category":
            codes = {level: code for code, level in enumerate(self.levels, 1)}
            texts = as_texts(cells)
            return np.array(
                [np.nan if t is None else codes.get(t, 0.0) for t in texts]
            )
        numbers = self._numbers(cells)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        return np.clip(numbers - self.offset, -_LARGEST, _LARGEST)

    def _numbers(self, cells: Array) -> Array:
        is_dates = cells.dtype.kind == "M"
        if is_dates and self.kind == "date":
            numbers = cells.astype("M8[ns]").astype("float64") / 86_400e9
            return np.where(np.isnat(cells), np.nan, numbers)
        if self.kind == "date":
            return as_days(as_texts(cells), self.date_format)
        return np.full(len(cells), np.nan) if is_dates else as_numbers(cells)

    def unreadable(self, cells: Array) -> Array:
        """Mask `(n,)` of cells with a value that is no number or date."""
        if not self.is_number:
            return np.zeros(len(cells), bool)
        return has_value(cells) & np.isnan(self.encode(cells))


def learn_column(name: str, cells: Array, *, one_hot: bool = False) -> Column:
    """Infers the encoding of a column.

    With `one_hot`, numbers have no offset, constant columns are kept, and
    texts with many levels are ignored.
    """
    if not has_value(cells).any():
        return Column(name, "ignored", note="empty")
    is_date = cells.dtype.kind == "M"
    if is_date or is_numeric(cells):
        column = Column(name, "date" if is_date else "number")
        return column if one_hot else _learn_number(column, cells)
    texts = as_texts(cells)
    counts = collections.Counter(text for text in texts if text is not None)
    some = list(counts)[:: len(counts) // _SAMPLE + 1]
    if date_format := find_format(some):
        column = Column(name, "date", date_format=date_format)
        read = np.isfinite(column.encode(cells))
        if read.sum() >= _ENOUGH * counts.total():
            return column if one_hot else _learn_number(column, cells)
    count, rows = len(counts), counts.total()
    is_unique = count > 20 and count > 0.5 * rows
    if one_hot:
        is_unique = count > min(MOST_ONE_HOT, 0.5 * len(cells))
    if is_unique:
        return Column(name, "ignored", note=f"{count} different texts")
    if count == 1 and rows == len(cells) and not one_hot:
        return Column(name, "ignored", note="constant")
    levels = sorted(counts, key=lambda text: (-counts[text], text))
    return Column(name, "category", levels[:MOST_LEVELS])


def _learn_number(column: Column, cells: Array) -> Column:
    numbers = column.encode(cells)
    known = numbers[np.isfinite(numbers)]
    some_missing = 0 < len(known) < len(numbers)
    if not some_missing and (not known.size or known.min() == known.max()):
        return Column(column.name, "ignored", note="constant")
    middle, spread = middle_and_spread(known)
    if abs(middle) > _FAR * spread > 0:
        column.offset = float(middle)
    return column


def notes_of(columns: list[Column], cells: list[Array]) -> list[str]:
    """Sentences on ignored columns, dates, texts and unreadable cells."""
    said: dict[str, list[str]] = collections.defaultdict(list)
    for column, values in zip(columns, cells, strict=True):
        name = column.name
        if column.kind == "ignored":
            said["Ignored"].append(f"{name} ({column.note})")
        elif column.kind == "category":
            said["Texts"].append(f"{name} ({len(column.levels)} different)")
        elif column.kind == "date":
            said["Dates"].append(f"{name} ({_in_words(column.date_format)})")
        if column.kind != "ignored" and not has_value(values).all():
            said["With missing values"].append(name)
        if column.kind == "number":
            size = np.abs(column._numbers(values))
            outside = (size > _LARGEST) | ((size > 0) & (size < 1 / _LARGEST))
            if outside.any():
                words = "Too large or small for float32, and clipped"
                said[words].append(f"{int(outside.sum())} in `{name}`")
        bad = column.unreadable(values)
        if bad.any():
            row = int(bad.argmax())
            word = str(values[row])[:40]
            kind = f"{column.kind}s count as missing (rows count from 0)"
            said[f"Cells that are not {kind}"].append(
                f"{int(bad.sum())} in `{name}`, the first in row {row}: "
                f"{word!r}"
            )
    notes = []
    for words, names in said.items():
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        notes.append(f"{words}: {', '.join(names[:8])}{more}")
    return notes


def _in_words(date_format: str) -> str:
    """A format of dates as people write it, such as day.month.year."""
    words = {"d": "day", "m": "month", "b": "month", "B": "month"}
    words |= {"Y": "year", "y": "year"}
    for letter, word in words.items():
        date_format = date_format.replace(f"%{letter}", word)
    return date_format
