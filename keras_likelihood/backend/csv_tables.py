"""Tables of numbers from .csv files as people have them."""

import csv
import dataclasses
import itertools
from collections.abc import Iterator

import numpy as np

from keras_likelihood.backend.cells import as_days, has_value, kind_of
from keras_likelihood.backend.csv_files import CsvFile

MOST_LEVELS = 20
"""Largest number of different texts that a column of categories has."""


class CsvTable(CsvFile):
    """A .csv file as a table of numbers, read part by part.

    Numbers stay, dates become days since 1970, and a text with at
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
        super().__init__(path)
        self.notes: list[str] = []
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
        name, numbers = self._header[at], self.numbers(cells)
        kind, what, levels = kind_of(cells, numbers), "", []
        if kind == "nothing":
            return None, f"{name} (empty)"
        if self._is_index(at, numbers):
            return None, "the saved index"
        held = has_value(cells)
        if kind == "number":
            self._note_unreadable(name, cells, held & ~np.isfinite(numbers))
        elif kind == "date":
            numbers, what = as_days(cells), f"{name} (a date, in days)"
        else:
            levels = sorted({str(c).strip() for c in cells[held]})
            what = f"{name} ({len(levels)} texts)"
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
            return as_days(cells)[:, None]
        texts = np.array([str(cell).strip() for cell in cells])
        return (texts[:, None] == np.array(self.levels)).astype("float64")


def _finite(numbers):
    return np.where(np.isfinite(numbers), numbers, np.nan)
