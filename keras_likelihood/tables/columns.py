"""Kinds of the columns of a table, and conversion of cells to numbers."""

import collections
import dataclasses
import datetime
import itertools
import re
import warnings

import numpy as np

MOST_COLUMNS = 10_000
MOST_LEVELS = 250
"""Maximum number of categories. Less frequent ones are treated as unseen."""
_LARGEST = 1e37
"""Numbers are clipped here, because Keras computes in float32."""
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?"}
_MISSING |= {"<na>", "nat"}  # as pandas writes it
_ENOUGH = 0.95
"""Minimum fraction of readable cells in a column of numbers or dates."""
_DAY_FIRST = re.compile(r"\s*(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_FIRST = 1000
"""Number of texts that are tested for dates, because parsing is slow."""


def kind_of(cells: np.ndarray) -> str:
    """Kind of a column: `"number"`, `"date"`, `"text"` or `"nothing"`."""
    if cells.dtype.kind == "M":
        return "nothing" if np.isnat(cells).all() else "date"
    held = has_value(cells)
    enough = _ENOUGH * held.sum()
    if not held.any():
        return "nothing"
    if (~np.isnan(as_numbers(cells))).sum() >= enough:
        return "number"
    different = dict.fromkeys(text for text in as_texts(cells) if text)
    first = _dates(list(itertools.islice(different, _FIRST)))
    may_be_dates = np.isfinite(first).sum() > 0.5 * len(first)
    if may_be_dates and np.isfinite(as_days(cells)).sum() >= enough:
        return "date"
    return "text"


def is_missing(cell: str) -> bool:
    """Whether a text means a missing value."""
    return cell.strip().lower() in _MISSING


def has_value(cells: np.ndarray) -> np.ndarray:
    """Mask `(n,)` of the cells that have a value."""
    if cells.dtype.kind in "biuf":
        return ~np.isnan(cells)
    return np.array([text is not None for text in as_texts(cells)], bool)


def as_words(cells) -> list[str]:
    """Cells as texts, with whole numbers without decimals."""
    words = []
    for cell in np.asarray(cells).tolist():
        if isinstance(cell, float) and cell.is_integer():
            cell = int(cell)
        words.append(str(cell).strip())
    return words


def as_texts(cells) -> list[str | None]:
    """As `as_words`, but `None` for missing cells."""
    return [None if is_missing(word) else word for word in as_words(cells)]


def as_numbers(cells) -> np.ndarray:
    """Cells as float64, NaN for cells that are not numbers."""
    try:
        return np.asarray(cells, "float64")
    except (TypeError, ValueError):
        return np.array([as_number(cell) for cell in cells], "float64")


def as_number(cell) -> float:
    """A cell as a number, or NaN."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def refuse_nan(values: np.ndarray, name: str) -> None:
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


def as_days(cells) -> np.ndarray:
    """Cells as days since 1970, with the day first in `1.2.2024`, or NaN."""
    cells = np.asarray(cells)
    if cells.dtype.kind == "M":
        # Nanoseconds since 1970.
        days = cells.astype("datetime64[ns]").astype("float64") / 86_400e9
        return np.where(np.isnat(cells), np.nan, days)
    texts = as_texts(cells)
    different = [text for text in dict.fromkeys(texts) if text is not None]
    days = dict(zip(different, _dates(different), strict=True))
    return np.array([days.get(text, np.nan) for text in texts])


def _dates(texts):
    days = np.array([_iso_days(text) for text in texts], "float64")
    unread = np.isnan(days)
    if not unread.any():
        return days
    try:
        import pandas
    except ModuleNotFoundError:
        return days
    with warnings.catch_warnings():
        # pandas warns if it cannot infer one format from the first text.
        warnings.simplefilter("ignore")
        found = pandas.to_datetime(
            pandas.Series(np.array(texts, object)[unread], dtype=object),
            errors="coerce",
            utc=True,
        )
    since = found - pandas.Timestamp(0, tz="UTC")
    days[unread] = (since / pandas.Timedelta(days=1)).to_numpy("float64")
    return days


def _iso_days(text):
    if found := _DAY_FIRST.match(text):
        day, month, year = map(int, found.groups())
        text = f"{year:04}-{month:02}-{day:02}{text[found.end() :]}"
    try:
        moment = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return np.nan
    zone = moment.tzinfo or datetime.UTC
    return moment.replace(tzinfo=zone).timestamp() / 86_400


@dataclasses.dataclass
class Column:
    """Encoding of one column of a table.

    `kind` is "number", "date" (encoded as days since 1970), "category", or
    "ignored": constant, empty, or texts that differ in nearly every row. The
    codes of `levels` are 1, 2, ..., and 0 is the code of unseen levels.
    """

    name: str
    kind: str
    levels: list[str] = dataclasses.field(default_factory=list)

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "date")

    def encode(self, cells: np.ndarray) -> np.ndarray:
        """Cells as float64 `(n,)`: numbers or codes, NaN if missing."""
        if self.kind == "ignored":
            return np.zeros(len(cells))
        if self.kind == "category":
            codes = {level: code for code, level in enumerate(self.levels, 1)}
            texts = as_texts(cells)
            return np.array(
                [np.nan if t is None else codes.get(t, 0.0) for t in texts]
            )
        numbers = as_days(cells) if self.kind == "date" else as_numbers(cells)
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        return np.clip(numbers, -_LARGEST, _LARGEST)


def learn_column(name: str, cells: np.ndarray) -> Column:
    """Infers the encoding of a column."""
    kind = kind_of(cells)
    if kind in ("number", "date"):
        column = Column(name, kind)
        numbers = column.encode(cells)
        known = numbers[np.isfinite(numbers)]
        some_missing = 0 < len(known) < len(numbers)
        varies = some_missing or (known.size and known.min() < known.max())
        return column if varies else Column(name, "ignored")
    texts = as_texts(cells)
    counts = collections.Counter(text for text in texts if text is not None)
    known_count = counts.total()
    is_unique = len(counts) > 20 and len(counts) > 0.5 * known_count
    values = len(counts) + (known_count < len(texts))
    if values < 2 or is_unique or not known_count:
        return Column(name, "ignored")
    levels = sorted(counts, key=lambda text: (-counts[text], text))
    return Column(name, "category", levels[:MOST_LEVELS])
