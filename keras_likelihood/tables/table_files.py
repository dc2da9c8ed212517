"""Reads tables in files part by part, as columns or as numbers."""

import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.extras import open_parquet
from keras_likelihood.tables import csv_files
from keras_likelihood.tables.columns import (
    Column,
    as_numbers,
    as_texts,
    has_value,
    kind_of,
)

_MOST_LEVELS = 20
"""Maximum number of distinct texts in a column that is one-hot encoded."""


def is_text_table(path) -> bool:
    """Whether the suffix of a file is .csv, .tsv or .txt."""
    return pathlib.Path(path).suffix.lower() in (".csv", ".tsv", ".txt")


def reader_of(path) -> Callable[[], Iterator]:
    """A function that yields names and cells of a .csv or .parquet in parts."""
    if is_text_table(path):
        return csv_files.CsvFile(path).pieces
    if pathlib.Path(path).suffix.lower() != ".parquet":
        raise ValueError(
            f"The table must be a .csv or a .parquet. Received: {path}"
        )
    file = open_parquet(path)

    def pieces():
        for batch in file.iter_batches(csv_files.PART_ROWS):
            names = batch.schema.names
            plain = (
                c.dictionary_decode() if hasattr(c, "dictionary") else c
                for c in batch.columns
            )
            cells = (column.to_numpy(zero_copy_only=False) for column in plain)
            yield names, list(map(checked_cells, cells, names))

    return pieces


def is_index(name: str, cells) -> bool:
    """Whether the first column of a table is an index that pandas saved."""
    counted = np.arange(len(cells))
    return name in csv_files.INDEX and np.array_equal(cells, counted)


def checked_cells(cells, name: str) -> np.ndarray:
    """The cells of a column, checked to have one value each."""
    cells = np.asarray(cells)
    if cells.dtype.kind == "m":
        return cells / np.timedelta64(1, "D")
    nested = list | tuple | dict | set | np.ndarray
    bad = f"an array of shape {cells.shape}" if cells.ndim != 1 else ""
    if cells.dtype.kind in "cV":
        bad = f"values of dtype {cells.dtype}"
    elif cells.dtype.kind == "f" and np.isinf(cells).any():
        bad = "infinity"
    elif cells.dtype.kind == "O":
        found = (type(c).__name__ for c in cells if isinstance(c, nested))
        bad = bad or next(found, "")
    if bad:
        raise ValueError(
            f"The column `{name}` must have one finite number, date or text "
            f"per row. Received: {bad}"
        )
    return cells


class NumberTable:
    """A table as numbers, read part by part.

    Dates are encoded as days since 1970. Texts with at most 20 distinct values
    are one-hot encoded. A saved index, empty columns and other texts are
    omitted. The encoding is chosen from the first part, of up to 65,536 rows.

    The column `target` is not encoded; "" means the last column. `notes` list
    the columns that were encoded, filled or omitted. `names` are the columns of
    `read`. `filled_names` are the columns of `chunks`, which include indicators
    of missing values. `pieces` replaces the reader of the path.
    """

    def __init__(self, path, target: str | None = None, pieces=None):
        self._pieces = pieces or reader_of(path)
        self.notes: list[str] = []
        begun = self._pieces()
        names, cells = first = next(begun)
        # The first pass continues from here.
        self._begun: Iterator | None = itertools.chain([first], begun)
        self.target: Any = names[-1] if target == "" else target
        if target is not None and names.count(str(self.target)) != 1:
            raise ValueError(
                f"{path}: the target must be one of the columns "
                f"{', '.join(names[:20])}. Received: {self.target}"
            )
        self._target_at = names.index(self.target) if self.target else 0
        self._columns: dict[int, Column] = {}
        self._middles: dict[str, float] = {}
        self._learn(names, cells)
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

        Missing numbers are replaced by the median of their column.
        """
        middle = [self._middles.get(name, 0.0) for name in self.names]
        gaps = [self.names.index(name) for name in self._middles]
        for cells in self._parts():
            values = self._encode(cells)
            gap = np.isnan(values)
            values = np.where(gap, middle, values)
            yield np.concatenate([values, gap[:, gaps]], axis=1)

    def read(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole table, with NaN for missing cells, and the target."""
        tables, targets = [], []
        for cells in self._parts():
            tables.append(self._encode(cells))
            targets.append(cells[self._target_at])
        return np.concatenate(tables), np.concatenate(targets)

    def _parts(self):
        begun, self._begun = self._begun or self._pieces(), None
        return (cells for _, cells in begun)

    def _encode(self, cells):
        found = [_values(c, cells[at]) for at, c in self._columns.items()]
        return np.column_stack(found).astype("float64", copy=False)

    def _learn(self, names, cells):
        """Chooses the columns and their encoding from the first part."""
        said: dict = {"Encoded": [], "Left out": [], "With missing values": []}
        for at, (name, values) in enumerate(zip(names, cells, strict=True)):
            if name == self.target:
                continue
            kind, levels = kind_of(values), []
            if kind == "text":
                levels = sorted({text for text in as_texts(values) if text})
            left_out = ""
            if kind == "nothing":
                left_out = f"{name} (empty)"
            elif at == 0 and is_index(name, values):
                left_out = "the saved index"
            elif len(levels) > min(_MOST_LEVELS, len(values) / 2):
                left_out = f"{name} ({len(levels)} different texts)"
            if left_out:
                said["Left out"].append(left_out)
                continue
            column = Column(name, "category" if levels else kind, levels)
            self._columns[at] = column
            if levels:
                said["Encoded"].append(f"{name} ({len(levels)} texts)")
                continue
            if kind == "date":
                said["Encoded"].append(f"{name} (a date, in days)")
            else:
                self._note_unreadable(name, values)
            read = column.encode(values)
            if np.isnan(read).any():
                said["With missing values"].append(name)
                self._middles[name] = float(np.nanmedian(read))
        for words, of in said.items():
            if of:
                more = f" and {len(of) - 8} more" if len(of) > 8 else ""
                self.notes.append(f"{words}: {', '.join(of[:8])}{more}")

    def _note_unreadable(self, name, cells):
        bad = has_value(cells) & ~np.isfinite(as_numbers(cells))
        if bad.any():
            row = int(bad.argmax())
            self.notes.append(
                f"Cells of `{name}` that are not finite numbers count as "
                f"missing: {int(bad.sum())}, the first in row {row}: "
                f"{str(cells[row])[:40]!r}"
            )


def _values(column, cells):
    """Numbers `(n,)`, or zeros and ones `(n, levels)`."""
    values = column.encode(cells)
    if column.levels:
        return values[:, None] == 1 + np.arange(len(column.levels))
    return values
