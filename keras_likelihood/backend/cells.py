"""The cells of one column of a table as numbers, days and texts."""

import datetime
import itertools
import re
import warnings

import numpy as np

_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?"}
_MISSING |= {"<na>", "nat"}  # as pandas writes it
_ENOUGH = 0.95
"""Share of readable cells from which a column holds numbers or dates."""
_DAY_FIRST = re.compile(r"\s*(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_FIRST = 1000
"""Dates must be among the first texts, because reading texts is slow."""


def kind_of(cells: np.ndarray, numbers: np.ndarray) -> str:
    """What a column holds: `"number"`, `"date"`, `"text"` or `"nothing"`."""
    if cells.dtype.kind == "M":
        return "nothing" if np.isnat(cells).all() else "date"
    held = has_value(cells)
    enough = _ENOUGH * held.sum()
    if not held.any():
        return "nothing"
    if (~np.isnan(numbers)).sum() >= enough:
        return "number"
    different = dict.fromkeys(text for text in as_texts(cells) if text)
    first = _dates(list(itertools.islice(different, _FIRST)))
    may_be_dates = np.isfinite(first).sum() > 0.5 * len(first)
    if may_be_dates and np.isfinite(as_days(cells)).sum() >= enough:
        return "date"
    return "text"


def is_missing(cell: str) -> bool:
    """Whether a text says that there is no value."""
    return cell.strip().lower() in _MISSING


def has_value(cells: np.ndarray) -> np.ndarray:
    """Which cells have a value, bool `(n,)`."""
    if cells.dtype.kind in "biuf":
        return ~np.isnan(cells)
    return np.array([text is not None for text in as_texts(cells)], bool)


def as_texts(cells) -> list[str | None]:
    """Cells as texts, whole numbers without decimals, `None` where missing."""
    texts = []
    for cell in np.asarray(cells).tolist():
        if isinstance(cell, float) and cell.is_integer():
            cell = int(cell)
        text = str(cell).strip()
        texts.append(None if is_missing(text) else text)
    return texts


def as_numbers(cells) -> np.ndarray:
    """Cells as float64; NaN where a cell is not a number."""
    try:
        return np.asarray(cells, "float64")
    except (TypeError, ValueError):
        return np.array([_number(cell) for cell in cells], "float64")


def _number(cell):
    try:
        return float(cell)
    except (TypeError, ValueError):
        return np.nan


def as_days(cells) -> np.ndarray:
    """Cells as days since 1970, `1.2.2024` in February; NaN without a date."""
    cells = np.asarray(cells)
    if cells.dtype.kind == "M":
        # Numbers of nanoseconds since 1970.
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
        # The first text decides the format, or none does.
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
