"""Tables of numbers from .csv files as people have them."""

import csv
import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.cells import as_days, as_texts, has_value, kind_of
from keras_likelihood.backend.csv_files import CsvFile

MOST_LEVELS = 20
"""Largest number of different texts that a column of categories has."""


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
        if target is not None and self._header.count(self.target) != 1:
            raise ValueError(
                f"{path}: the target must be one of the columns "
                f"{', '.join(self._header[:20])}. Received: {self.target}"
            )
        parts = self._parts()
        first = next(parts)
        # The first reading goes on from here.
        self._begun: Iterator | None = itertools.chain([first], parts)
        self._columns = list(self._learn(first))
        self.changed = any(column.kind != "number" for column in self._columns)
        if not self._columns:
            raise ValueError(
                f"{path}: no column can be used as numbers. {self.note}"
            )
        self.names = [n for c in self._columns for n in c.names]
        self._middle = [c.middle or 0.0 for c in self._columns for _ in c.names]
        gaps = [c.name for c in self._columns if c.middle is not None]
        self._gaps = [self.names.index(name) for name in gaps]
        self.filled_names = [*self.names, *(f"{n} is missing" for n in gaps)]

    @property
    def note(self) -> str:
        """All notes as one text."""
        return " ".join(f"{note}." for note in self.notes)

    def chunks(self, fill: bool = True) -> Iterator[np.ndarray]:
        """Parts of the table, float64 `(rows, columns)`.

        With `fill` a missing number becomes the median of its column.
        """
        for part in self._rows():
            values = self._encode(part)
            if fill:
                gap = ~np.isfinite(values)
                values = np.where(gap, self._middle, values)
                values = np.concatenate([values, gap[:, self._gaps]], axis=1)
            yield values

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
            return part[:, [column.at for column in self._columns]]
        return np.column_stack([self._values(c, part) for c in self._columns])

    def _values(self, column, part):
        cells = part[:, column.at]
        if column.kind == "number":
            return _finite(self.numbers(cells))
        if column.kind == "date":
            return as_days(cells)
        texts = np.array(as_texts(cells), object)
        return np.stack([texts == v for v in column.levels], 1).astype(float)

    def _learn(self, part):
        """The columns to read, as those of the first part suggest."""
        said: dict = {"Encoded": [], "Left out": [], "With missing values": []}
        for at, name in enumerate(self._header):
            if name == self.target:
                continue
            cells = part[:, at]
            numbers = self.numbers(cells)
            column = _Column(at, name, kind_of(cells, numbers))
            if column.kind == "text":
                column.levels = sorted({t for t in as_texts(cells) if t})
            count = len(column.levels)
            if column.kind == "nothing":
                said["Left out"].append(f"{name} (empty)")
                continue
            if self._is_index(at, numbers):
                said["Left out"].append("the saved index")
                continue
            if count > min(MOST_LEVELS, len(cells) / 2):
                said["Left out"].append(f"{name} ({count} different texts)")
                continue
            if column.kind == "text":
                said["Encoded"].append(f"{name} ({count} texts)")
            elif column.kind == "date":
                numbers = as_days(cells)
                said["Encoded"].append(f"{name} (a date, in days)")
            else:
                self._note_unreadable(name, cells, numbers)
            if column.kind != "text" and not np.isfinite(numbers).all():
                said["With missing values"].append(name)
                column.middle = float(np.nanmedian(_finite(numbers)))
            yield column
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


@dataclasses.dataclass
class _Column:
    """How a column is read; `middle` takes the place of missing values."""

    at: int
    name: str
    kind: str
    levels: list = dataclasses.field(default_factory=list)
    middle: float | None = None

    @property
    def names(self):
        if self.kind != "text":
            return [self.name]
        return [f"{self.name} = {level}" for level in self.levels]


def _finite(numbers):
    return np.where(np.isfinite(numbers), numbers, np.nan)
