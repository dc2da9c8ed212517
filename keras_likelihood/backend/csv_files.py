"""Files of the kind .csv as people have them, read as columns or numbers."""

import codecs
import csv
import itertools
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.columns import (
    Column,
    as_numbers,
    as_texts,
    has_value,
    is_missing,
    kind_of,
)
from keras_likelihood.backend.whole_files import replacing

_MOST_LEVELS = 20
"""Largest number of different texts that a column of categories has."""
_PART_ROWS, _PART_CELLS = 2**16, 2**23
_INDEX = ("", "index", "Unnamed: 0")
"""Names under which pandas saves the index of a table."""
_DECIMAL_COMMA = re.compile(r"\s*[-+]?[\d.]*,\d+\s*")


class CsvFile:
    """A .csv file in UTF-8 or Latin-1, with or without names of columns."""

    def __init__(self, path):
        self._path = path
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

    def pieces(self) -> Iterator[tuple[list[str], list[np.ndarray]]]:
        """Names and cells, part by part; a saved index is left out."""
        first = None
        for part in self._parts():
            columns = [self._cells(cells) for cells in part.T]
            if first is None:
                first = int(self._is_index(0, columns[0]))
            yield self._header[first:], columns[first:]

    def _cells(self, cells):
        numbers = self.numbers(cells)
        is_number = ~np.isnan(numbers)
        if (is_number | ~has_value(cells)).all():
            return numbers
        # A category may be a number, too.
        return np.where(is_number, numbers, cells)

    def _is_index(self, at, values):
        named = at == 0 and self._has_names and self._header[at] in _INDEX
        return named and np.array_equal(values, np.arange(len(values)))

    def numbers(self, cells) -> np.ndarray:
        """Cells as numbers; NaN where there is none."""
        try:
            return np.asarray(cells, "float64")
        except ValueError:
            if self._separator != ",":
                cells = [_with_point(cell) for cell in cells]
            return as_numbers(cells)

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
            begin += len(rows)
            try:
                part = np.array([list(map(float, row)) for row in rows])
            except ValueError:
                part = np.array(rows, object)
            yield part
        with open(self._path, "rb") as file:
            file.seek(-1, 2)
            is_whole = file.read(1) in b"\r\n"
        if not is_whole:
            warnings.warn(
                f"{self._path} does not end with a line break, so its last "
                "row may be cut off",
                stacklevel=2,
            )


class CsvTable(CsvFile):
    """A .csv file as a table of numbers, read part by part.

    Dates become days since 1970, and a text with at most 20 different values a
    column of zeros and ones for each. A saved index, empty columns and other
    texts are left out. The first part, of up to 65,536 rows, decides.

    The column `target` is kept as text, "" means the last. `notes` say what was
    encoded, filled or left out, and `filled_names` has also the columns that
    say that a value is missing.
    """

    def __init__(self, path, target: str | None = None):
        super().__init__(path)
        self.notes: list[str] = []
        self.target: Any = self._header[-1] if target == "" else target
        if target is not None and self._header.count(str(self.target)) != 1:
            raise ValueError(
                f"{path}: the target must be one of the columns "
                f"{', '.join(self._header[:20])}. Received: {self.target}"
            )
        parts = self._parts()
        first = next(parts)
        # The first reading goes on from here.
        self._begun: Iterator | None = itertools.chain([first], parts)
        self._columns: dict[int, Column] = {}
        self._middles: dict[str, float] = {}
        self._learn(first)
        if not self._columns:
            raise ValueError(
                f"{path}: no column can be used as numbers. {self.note}"
            )
        columns = self._columns.values()
        self.changed = any(column.kind != "number" for column in columns)
        self.names = [
            f"{column.name} = {level}" if level else column.name
            for column in columns
            for level in column.levels or [""]
        ]
        gaps = [f"{name} is missing" for name in self._middles]
        self.filled_names = [*self.names, *gaps]

    @property
    def note(self) -> str:
        """All notes as one text."""
        return " ".join(f"{note}." for note in self.notes)

    def chunks(self) -> Iterator[np.ndarray]:
        """Parts of the table, float64 `(rows, filled_names)`.

        A missing number is the median of its column.
        """
        middle = [self._middles.get(name, 0.0) for name in self.names]
        gaps = [self.names.index(name) for name in self._middles]
        for part in self._rows():
            values = self._encode(part)
            gap = ~np.isfinite(values)
            values = np.where(gap, middle, values)
            yield np.concatenate([values, gap[:, gaps]], axis=1)

    def _rows(self):
        parts, self._begun = self._begun or self._parts(), None
        return parts

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole table, and the cells of the target as text."""
        tables, cells = [], []
        at = self._header.index(self.target) if self.target else 0
        for part in self._rows():
            tables.append(self._encode(part))
            cells += [str(cell).strip() for cell in part[:, at]]
        return np.concatenate(tables), np.array(cells)

    def write(self, path, cells, keep) -> None:
        """Writes the rows of `keep` again with other cells of the target."""
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

    def _encode(self, part):
        if part.dtype.kind == "f" and not self.changed:
            return part[:, list(self._columns)]
        found = [self._values(c, part[:, i]) for i, c in self._columns.items()]
        return np.column_stack(found).astype("float64")

    def _values(self, column, cells):
        if column.kind == "number":
            cells = self.numbers(cells)
        values = column.encode(cells)
        if column.levels:
            return values[:, None] == 1 + np.arange(len(column.levels))
        return values

    def _learn(self, part):
        """Finds the columns to read, as those of the first part suggest."""
        said: dict = {"Encoded": [], "Left out": [], "With missing values": []}
        for at, name in enumerate(self._header):
            if name == self.target:
                continue
            cells = part[:, at]
            numbers = self.numbers(cells)
            kind, levels = kind_of(cells, numbers), []
            if kind == "text":
                levels = sorted({text for text in as_texts(cells) if text})
            left_out = ""
            if kind == "nothing":
                left_out = f"{name} (empty)"
            elif self._is_index(at, numbers):
                left_out = "the saved index"
            elif len(levels) > min(_MOST_LEVELS, len(cells) / 2):
                left_out = f"{name} ({len(levels)} different texts)"
            if left_out:
                said["Left out"].append(left_out)
                continue
            column = Column(name, "category" if levels else kind, levels)
            self._columns[at] = column
            if kind == "text":
                said["Encoded"].append(f"{name} ({len(levels)} texts)")
                continue
            if kind == "date":
                said["Encoded"].append(f"{name} (a date, in days)")
            else:
                self._note_unreadable(name, cells, numbers)
            values = self._values(column, cells)
            if np.isnan(values).any():
                said["With missing values"].append(name)
                self._middles[name] = float(np.nanmedian(values))
        for words, names in said.items():
            if names:
                more = f" and {len(names) - 8} more" if len(names) > 8 else ""
                self.notes.append(f"{words}: {', '.join(names[:8])}{more}")

    def _note_unreadable(self, name, cells, numbers):
        bad = has_value(cells) & ~np.isfinite(numbers)
        if bad.any():
            row = int(bad.argmax())
            self.notes.append(
                f"Cells of `{name}` that are not finite numbers count as "
                f"missing: {int(bad.sum())}, the first in row {row}: "
                f"{str(cells[row])[:40]!r}"
            )


def write_csv(path, columns: dict) -> None:
    """Writes a table of columns by name, whole or not at all."""
    with replacing(path) as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))


def _has_names(head):
    """Whether the first row has names, and not the first values.

    Names begin with `#`, are no numbers, count the columns from 0 as pandas
    does, or stand above numbers. Otherwise they are new texts beside different
    whole numbers, such as years.
    """
    first, *rows = head
    numbers = [cell for cell in first if _is_number(cell)]
    if first[0].startswith("#") or not numbers:
        return True
    counted = first[1:] if first[0] in _INDEX else first
    if len(counted) > 1 and counted == [str(i) for i in range(len(counted))]:
        return True
    texts = [
        (cell, [row[at] for row in rows if at < len(row)])
        for at, cell in enumerate(first)
        if not _is_number(cell) and not is_missing(cell)
    ]
    if not rows or not texts:
        return False
    if any(all(map(_is_number, below)) for _, below in texts):
        return True
    whole = all(cell.strip().isdigit() for cell in numbers)
    new = all(cell not in below for cell, below in texts)
    return new and whole and len(set(numbers)) == len(numbers)


def _with_point(cell):
    """A number with a decimal comma as one with a point."""
    if _DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    return cell


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True
