"""Tables of numbers from .csv files as people have them."""

import csv
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.cells import as_texts, has_value, kind_of
from keras_likelihood.backend.columns import Column
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

    def chunks(self, fill: bool = True) -> Iterator[np.ndarray]:
        """Parts of the table, float64 `(rows, columns)`.

        With `fill` a missing number becomes the median of its column.
        """
        for part in self._rows():
            values = self._encode(part)
            if fill:
                gap = ~np.isfinite(values)
                middle = [self._middles.get(name, 0.0) for name in self.names]
                gaps = [self.names.index(name) for name in self._middles]
                values = np.where(gap, middle, values)
                values = np.concatenate([values, gap[:, gaps]], axis=1)
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
            elif len(levels) > min(MOST_LEVELS, len(cells) / 2):
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
