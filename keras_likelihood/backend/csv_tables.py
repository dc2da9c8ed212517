"""Tables of numbers from .csv files as people have them."""

import codecs
import csv
import dataclasses
import datetime
import itertools
import re
import warnings
from collections.abc import Iterator

import numpy as np

MOST_LEVELS = 20
"""Largest number of different texts that a column of categories has."""
_PART_ROWS, _PART_CELLS = 2**16, 2**23
_MISSING = {"", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?"}
_INDEX = ("", "index", "Unnamed: 0")
"""Names under which pandas saves the index of a table."""
_DECIMAL_COMMA = re.compile(r"\s*[-+]?[\d.]*,\d+\s*")
_DAY_FIRST = re.compile(r"\s*(\d{1,2})\.(\d{1,2})\.(\d{4})\b")
_ENOUGH = 0.95
"""Share of readable cells from which a column holds numbers or dates."""


class CsvTable:
    """A .csv file as a table of numbers, read part by part.

    The separator may be `,`, `;`, a tab or `|`, and the text UTF-8 or
    Latin-1. Numbers stay, dates become days since 1970, and a text with at
    most 20 different values becomes a column of zeros and ones for each. A
    saved index, empty columns and other texts are left out. The first part,
    of up to 65,536 rows, decides how a column is read.

    Args:
        path: the path of the file.
        target: name of a column that is not read as a number but kept as
            text; "" for the last column. Defaults to none.

    Attributes:
        names: names of the columns after the encoding.
        notes: what was encoded, filled or left out, in sentences.
        changed: whether there are columns that are not plain numbers.
        target: name of the target column, or `None`.
    """

    def __init__(self, path, target: str | None = None):
        self._path = path
        self.notes: list[str] = []
        self._encoding = self._find_encoding()
        self._separator = self._find_separator()
        head = list(itertools.islice(self._lines(), 100))
        self._has_names = bool(head) and _has_names(head)
        if len(head) <= self._has_names:
            raise ValueError(f"{path}: the file holds no rows")
        self._width = len(head[0])
        self._header = [f"column {i}" for i in range(self._width)]
        if self._has_names:
            self._header = [cell.strip("# ") for cell in head[0]]
        self._size = max(64, min(_PART_ROWS, _PART_CELLS // self._width))
        self.target = self._find_target(target)
        parts = self._parts()
        first = next(parts)
        # The first reading goes on from here.
        self._begun: Iterator | None = itertools.chain([first], parts)
        self._columns = self._plan(first)
        self.changed = any(column.kind != "number" for column in self._columns)
        if not self._columns:
            raise ValueError(
                f"{path}: no column can be used as numbers. {self.note}"
            )
        self.names = [n for column in self._columns for n in column.names()]

    @property
    def note(self) -> str:
        """All notes as one text."""
        return " ".join(f"{note}." for note in self.notes)

    def chunks(self, fill: bool = True) -> Iterator[np.ndarray]:
        """Parts of the table, float64 `(rows, columns)`.

        Args:
            fill: whether a missing number becomes the median of its column,
                with a further column that says so. If False, it is NaN.
        """
        for part in self._rows():
            yield self._encode(part, fill)

    def _rows(self):
        parts, self._begun = self._begun or self._parts(), None
        return parts

    def read(self, fill: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """The whole table, and the cells of the target as text."""
        tables, cells = [], []
        at = self._header.index(self.target) if self.target else 0
        for part in self._rows():
            tables.append(self._encode(part, fill))
            cells += [str(cell).strip() for cell in part[:, at]]
        return np.concatenate(tables), np.array(cells)

    def cells(self) -> dict[str, np.ndarray]:
        """All columns by name: numbers where nearly all cells are, else text.

        A missing number is NaN. A saved index is left out.
        """
        twice = [n for n in self._header if self._header.count(n) > 1]
        if twice:
            raise ValueError(
                f"{self._path}: every column must have a name of its own. "
                f"Received: {twice[0]} more than once"
            )
        parts = [np.asarray(part, object) for part in self._rows()]
        found = {}
        for at, name in enumerate(self._header):
            cells = np.concatenate([part[:, at] for part in parts])
            numbers = self.numbers(cells)
            if self._is_index(at, numbers):
                continue
            enough = _ENOUGH * _held(cells).sum()
            is_number = np.isfinite(numbers).sum() >= enough
            found[name] = _finite(numbers) if is_number else cells
        return found

    def write(self, path, cells, keep) -> None:
        """Writes the file again with other cells of the target.

        Args:
            path: the path of the new file.
            cells: the text of each row's target.
            keep: which rows to write, bool `(n,)`.
        """
        lines = self._lines()
        at = self._header.index(self.target)
        coding = self._encoding.removesuffix("-sig")
        with open(path, "w", newline="", encoding=coding) as file:
            writer = csv.writer(file, delimiter=self._separator)
            if self._has_names:
                writer.writerow(next(lines))
            for row, cell, kept in zip(lines, cells, keep, strict=True):
                if kept:
                    writer.writerow([*row[:at], cell, *row[at + 1 :]])

    def _encode(self, part, fill):
        at = [column.at for column in self._columns]
        if part.dtype.kind == "f":
            values = part[:, at]
        else:
            values = np.concatenate(
                [column.values(self, part) for column in self._columns], axis=1
            )
        if not fill:
            return values
        middle = [m for c in self._columns for m in c.middles()]
        gap = ~np.isfinite(values)
        values = np.where(gap, middle, values) if gap.any() else values
        gaps = [self.names.index(c.name) for c in self._columns if c.has_gaps]
        if not gaps:
            return values
        return np.concatenate([values, gap[:, gaps]], axis=1)

    @property
    def filled_names(self) -> list[str]:
        """Names of the columns of `chunks()`, with those of missing values."""
        gaps = [f"{c.name} is missing" for c in self._columns if c.has_gaps]
        return [*self.names, *gaps]

    def _find_encoding(self):
        decoder = codecs.getincrementaldecoder("utf-8")()
        with open(self._path, "rb") as file:
            for block in iter(lambda: file.read(2**24), b""):
                if re.search(rb"[\x00-\x08\x0e-\x1f]", block):
                    raise ValueError(
                        f"{self._path}: the file is not a .csv of plain text. "
                        "Received: bytes that are not text"
                    )
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    return "latin-1"
        return "utf-8-sig"

    def _open(self):
        return open(self._path, newline="", encoding=self._encoding)

    def _find_separator(self):
        with self._open() as file:
            first, second = file.readline(2**20), file.readline(2**20)
        for separator in ";\t|":
            if 0 < first.count(separator) == second.count(separator):
                return separator
        return ","

    def _lines(self):
        try:
            with self._open() as file:
                rows = csv.reader(file, delimiter=self._separator)
                yield from (row for row in rows if row)
        except csv.Error as error:
            raise ValueError(
                f"{self._path}: the file is not a .csv ({error})"
            ) from error

    def _parts(self):
        """Arrays of some rows: numbers if all cells are, else texts."""
        lines = self._lines()
        if self._has_names:
            next(lines)
        begin = 0
        while rows := list(itertools.islice(lines, self._size)):
            for at, row in enumerate(rows, start=begin):
                if len(row) != self._width:
                    raise ValueError(
                        f"{self._path}: every row must hold {self._width} "
                        f"cells. Received in row {at}: {len(row)}"
                    )
            try:
                part = np.array([list(map(float, row)) for row in rows])
            except ValueError:
                part = np.array(rows, object)
            yield part
            begin += len(rows)
        if begin and not _ends_with_newline(self._path):
            warnings.warn(
                f"{self._path} does not end with a line break, so its last "
                "row may be cut off",
                stacklevel=2,
            )

    def _find_target(self, target):
        if target is None:
            return None
        name = target or self._header[-1]
        if self._header.count(name) != 1:
            raise ValueError(
                f"{self._path}: the target must be one of the columns "
                f"{', '.join(self._header[:20])}. Received: {name}"
            )
        return name

    def _is_index(self, at, values):
        named = at == 0 and self._has_names and self._header[at] in _INDEX
        return named and np.array_equal(values, np.arange(len(values)))

    def _plan(self, part):
        """The columns to read, as those of the first part suggest."""
        columns = []
        said: dict = {"Encoded": [], "Left out": [], "With missing values": []}
        for at, name in enumerate(self._header):
            if name == self.target:
                continue
            column, what = self._learn(at, part[:, at])
            if column is None:
                said["Left out"].append(what)
                continue
            columns.append(column)
            said["Encoded"] += [what] if what else []
            said["With missing values"] += [name] if column.has_gaps else []
        for words, names in said.items():
            if names:
                more = f" and {len(names) - 8} more" if len(names) > 8 else ""
                self.notes.append(f"{words}: {', '.join(names[:8])}{more}")
        return columns

    def _learn(self, at, cells):
        """How a column is read, or `None`, and what to say about it."""
        name, numbers, held = (
            self._header[at],
            self.numbers(cells),
            _held(cells),
        )
        kind, what, levels = "number", "", []
        if not held.any():
            return None, f"{name} (empty)"
        if self._is_index(at, numbers):
            return None, "the saved index"
        if (~np.isnan(numbers)).sum() >= _ENOUGH * held.sum():
            self._note_unreadable(name, cells, held & ~np.isfinite(numbers))
        elif np.isfinite(dates(cells)).sum() >= _ENOUGH * held.sum():
            kind, what = "date", f"{name} (a date, in days)"
            numbers = dates(cells)
        else:
            levels = sorted({str(c).strip() for c in cells[held]})
            kind, what = "text", f"{name} ({len(levels)} texts)"
            if len(levels) > min(MOST_LEVELS, len(cells) / 2):
                return None, f"{name} ({len(levels)} different texts)"
        column = _Column(at, name, kind, levels)
        if kind != "text" and not np.isfinite(numbers).all():
            column.has_gaps = True
            column.middle = float(np.nanmedian(_finite(numbers)))
        return column, what

    def _note_unreadable(self, name, cells, bad):
        if bad.any():
            row = int(bad.argmax())
            self.notes.append(
                f"Cells of `{name}` that are not finite numbers count as "
                f"missing: {int(bad.sum())}, the first in row {row}: "
                f"{str(cells[row])[:40]!r}"
            )

    def numbers(self, cells) -> np.ndarray:
        """Cells as numbers; NaN where there is none."""
        try:
            return np.asarray(cells, "float64")
        except ValueError:
            return np.array([self._number(cell) for cell in cells])

    def _number(self, cell):
        if self._separator != "," and _DECIMAL_COMMA.fullmatch(cell):
            cell = cell.replace(".", "").replace(",", ".")
        try:
            return float(cell)
        except ValueError:
            return np.nan


@dataclasses.dataclass
class _Column:
    """How a column is read.

    Args:
        at: its place in the file.
        name: its name.
        kind: "number", "date" or "text".
        levels: the texts that have a column each.
        has_gaps: whether values are missing.
        middle: what takes their place.
    """

    at: int
    name: str
    kind: str
    levels: list = dataclasses.field(default_factory=list)
    has_gaps: bool = False
    middle: float = 0.0

    def names(self):
        if self.kind != "text":
            return [self.name]
        return [f"{self.name} = {level}" for level in self.levels]

    def middles(self):
        return [self.middle] * len(self.names())

    def values(self, table, part):
        cells = part[:, self.at]
        if self.kind == "number":
            return _finite(table.numbers(cells))[:, None]
        if self.kind == "date":
            return dates(cells)[:, None]
        texts = np.array([str(cell).strip() for cell in cells])
        return (texts[:, None] == np.array(self.levels)).astype("float64")


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in _MISSING


def dates(cells) -> np.ndarray:
    """Cells as days since 1970; NaN where there is no date.

    With pandas all its formats are read, otherwise those of ISO 8601. Dates
    with dots, such as 31.12.2024, are read with the day first.
    """
    cells = [_as_iso(str(cell)) for cell in cells]
    try:
        import pandas
    except ModuleNotFoundError:
        return np.array([_iso_days(cell) for cell in cells])
    with warnings.catch_warnings():
        # The first cell decides the format, or none does.
        warnings.simplefilter("ignore")
        found = pandas.to_datetime(
            pandas.Series(cells), errors="coerce", utc=True
        )
    since = found - pandas.Timestamp(0, tz="UTC")
    return (since / pandas.Timedelta(days=1)).to_numpy("float64")


def _as_iso(cell):
    if found := _DAY_FIRST.match(cell):
        day, month, year = map(int, found.groups())
        return f"{year:04}-{month:02}-{day:02}{cell[found.end() :]}"
    return cell


def _iso_days(cell):
    try:
        found = datetime.datetime.fromisoformat(cell.strip())
    except ValueError:
        return np.nan
    zone = found.tzinfo or datetime.UTC
    return found.replace(tzinfo=zone).timestamp() / 86_400


def _finite(numbers):
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _held(cells):
    """Which cells have a value."""
    if cells.dtype.kind == "f":
        return ~np.isnan(cells)
    return np.array([not is_missing(str(cell)) for cell in cells])


def _has_names(head):
    """Whether the first row has names.

    It has if it begins with `#`, if none of its cells is a number, if it
    counts the columns from 0 as pandas does, or if it has a text where the
    rows below have numbers. Otherwise its texts must not occur below, and
    its numbers must be different whole numbers, such as years.
    """
    first, *rows = head
    numbers = [cell for cell in first if _is_number(cell)]
    if first[0].startswith("#") or not numbers:
        return True
    counted = first[1:] if first[0] in _INDEX else first
    if len(counted) > 1 and counted == [str(i) for i in range(len(counted))]:
        return True
    texts = {
        at: cell
        for at, cell in enumerate(first)
        if not _is_number(cell) and not is_missing(cell)
    }
    below = {
        at: [row[at] for row in rows if at < len(row)] for at in texts if rows
    }
    if any(all(map(_is_number, cells)) for cells in below.values()):
        return True
    whole = all(cell.strip().isdigit() for cell in numbers)
    new = below and all(texts[at] not in cells for at, cells in below.items())
    return bool(new) and whole and len(set(numbers)) == len(numbers)


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _ends_with_newline(path):
    with open(path, "rb") as file:
        file.seek(-1, 2)
        return file.read(1) in b"\r\n"
