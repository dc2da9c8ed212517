"""Reads texts as dates, in a format that is learned once per column."""

import datetime
import re
from collections.abc import Iterable

import numpy as np

ISO = "ISO"
"""Name of the format of ISO 8601, such as 2024-01-31 or 2024-01-31T12:00Z."""
FORMATS = (
    *(ISO, "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y"),
    *("%m-%d-%Y", "%Y.%m.%d", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y"),
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y"),
    *("%d-%b-%y", "%d. %B %Y", "%b %d %Y", "%Y-%m", "%b %Y", "%B %Y"),
)
"""Formats of `strptime`. The first that reads the most texts is chosen."""
_TIME = re.compile(
    r"[ T]\s*(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?\s*([AaPp][Mm])?$"
)


def as_days(texts: Iterable[str | None], date_format: str) -> np.ndarray:
    """Texts as days since 1970 (UTC), NaN if they do not fit the format.

    ISO dates are read in every column, because no other format reads them.
    """
    days: dict[str | None, float] = {None: np.nan}
    texts = list(texts)
    for text in dict.fromkeys(texts):
        if text is not None:
            days[text] = _days(text, date_format)
            if np.isnan(days[text]):
                days[text] = _days(text, ISO)
    return np.array([days[text] for text in texts], "float64")


def find_format(texts: list[str]) -> str | None:
    """The format that reads more than half of the texts, or `None`."""
    best, most = None, 0.5 * len(texts)
    for date_format in FORMATS:
        count = np.isfinite(as_days(texts, date_format)).sum()
        if count > most:
            best, most = date_format, count
    return best


def _days(text: str, date_format: str) -> float:
    hours = 0.0
    try:
        if date_format == ISO:
            moment = datetime.datetime.fromisoformat(text)
        else:
            if time := _TIME.search(text):
                text, hours = text[: time.start()], _hours(*time.groups())
            moment = datetime.datetime.strptime(text.strip(), date_format)
    except ValueError:
        return np.nan
    moment = moment.replace(tzinfo=moment.tzinfo or datetime.UTC)
    return moment.timestamp() / 86_400 + hours / 24


def _hours(
    hour: str, minute: str, second: str | None, half: str | None
) -> float:
    hours = int(hour)
    if half:
        hours = hours % 12 + 12 * (half.lower() == "pm")
    if hours > 23 or int(minute) > 59:
        raise ValueError
    return hours + int(minute) / 60 + float(second or 0) / 3600
