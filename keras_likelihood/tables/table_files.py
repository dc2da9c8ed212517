"""Opens tables in files, and reads them part by part as numbers."""

import difflib
import itertools
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_likelihood.backend.extras import extras_for
from keras_likelihood.backend.files import FileError, Path, open_regular
from keras_likelihood.backend.types import Array
from keras_likelihood.tables import csv_files
from keras_likelihood.tables.columns import Column, learn_column, notes_of

Parts = Iterator[tuple[list[str], list[Array]]]
"""Names and cells of the columns, part by part."""


def is_text_table(path: Path) -> bool:
    """Whether the suffix of a file is .csv, .tsv or .txt."""
    return pathlib.Path(path).suffix.lower() in (".csv", ".tsv", ".txt")


class ParquetFile:
    """A .parquet file, read like a `CsvFile`."""

    missing: dict[str, int] = {}  # noqa: RUF012

    def __init__(self, path: Path):
        with extras_for(f"Reading {path}"):
            import pyarrow
            import pyarrow.parquet
        open_regular(path).close()
        try:
            self._file = pyarrow.parquet.ParquetFile(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise FileError(
                f"{path}: the file is not a .parquet ({error})"
            ) from error
        if not self._file.metadata.num_rows:
            raise ValueError(f"{path}: the file contains no rows")
        self.names = csv_files.unique_names(self._file.schema_arrow.names, path)

    def pieces(self) -> Parts:
        for batch in self._file.iter_batches(csv_files.PART_ROWS):
            plain = (
                c.dictionary_decode() if hasattr(c, "dictionary") else c
                for c in batch.columns
            )
            cells = (column.to_numpy(zero_copy_only=False) for column in plain)
            yield self.names, list(map(checked_cells, cells, self.names))


def open_table(path: Path) -> csv_files.CsvFile | ParquetFile:
    """Opens a .csv or .parquet, which has `names` and `pieces()`."""
    if is_text_table(path):
        return csv_files.CsvFile(path)
    if pathlib.Path(path).suffix.lower() == ".parquet":
        return ParquetFile(path)
    raise ValueError(
        f"The table must be a .csv or a .parquet. Received: {path}"
    )


def check_target(target: str, names: Sequence[str], where: str = "") -> None:
    """Raises an error unless `target` is one of at least two columns."""
    if list(names).count(target) == 1 and len(names) > 1:
        return
    close = difflib.get_close_matches(target, names, n=1)
    advice = (
        f"Did you mean {close[0]!r}? " if close not in ([], [target]) else ""
    )
    raise ValueError(
        f"{where}`target` must be one of at least two columns. {advice}"
        f"Received: {target!r} of {', '.join(names[:20]) or 'no names'}"
    )


def is_index(name: str, cells: Array) -> bool:
    """Whether the first column of a table is an index that pandas saved."""
    counted = np.arange(len(cells))
    return name in csv_files.INDEX and np.array_equal(cells, counted)


def checked_cells(values: Any, name: str) -> Array:
    """The cells of a column, checked to have one value each."""
    cells: Array = np.asarray(values)
    if cells.dtype.kind == "m":
        days: Array = cells / np.timedelta64(1, "D")
        return days
    nested = (list, tuple, dict, set, np.ndarray)
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

    def __init__(
        self,
        path: Path,
        target: str | None = None,
        pieces: Callable[[], Parts] | None = None,
    ):
        self._pieces = pieces or open_table(path).pieces
        begun = self._pieces()
        names, cells = first = next(begun)
        # The first pass continues from here.
        self._begun: Parts | None = itertools.chain([first], begun)
        self.target = names[-1] if target == "" else target
        if self.target is not None:
            check_target(self.target, names, f"{path}: ")
        learned = [
            Column(name, "ignored", note="the saved index")
            if at == 0 and is_index(name, values)
            else learn_column(name, values, one_hot=True)
            for at, (name, values) in enumerate(zip(names, cells, strict=True))
        ]
        self._target_at = names.index(self.target) if self.target else -1
        inputs = [at for at in range(len(names)) if at != self._target_at]
        self.notes = notes_of(
            [learned[at] for at in inputs], [cells[at] for at in inputs]
        )
        self._columns = {
            at: learned[at] for at in inputs if learned[at].kind != "ignored"
        }
        columns = self._columns.values()
        if not columns:
            raise ValueError(
                f"{path}: no column can be used as numbers. {self.note}"
            )
        self.changed = any(column.kind != "number" for column in columns)
        self.names: list[str] = []
        self._middles: dict[str, float] = {}
        for at, column in self._columns.items():
            column.levels.sort()
            levels = [f"{column.name} = {level}" for level in column.levels]
            self.names += levels or [column.name]
            values = column.encode(cells[at])
            if not levels and np.isnan(values).any():
                self._middles[column.name] = float(np.nanmedian(values))
        gaps = [f"{name} is missing" for name in self._middles]
        self.filled_names = [*self.names, *gaps]

    @property
    def note(self) -> str:
        """All notes as one text."""
        return " ".join(f"{note}." for note in self.notes)

    def chunks(self) -> Iterator[Array]:
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

    def read(self) -> tuple[Array, Array]:
        """The whole table, with NaN for missing cells, and the target."""
        tables, targets = [], []
        for cells in self._parts():
            tables.append(self._encode(cells))
            targets.append(cells[self._target_at])
        return np.concatenate(tables), np.concatenate(targets)

    def _parts(self) -> Iterator[list[Array]]:
        begun, self._begun = self._begun or self._pieces(), None
        return (cells for _, cells in begun)

    def _encode(self, cells: list[Array]) -> Array:
        found = []
        for at, column in self._columns.items():
            values = column.encode(cells[at])
            if column.levels:
                codes = 1 + np.arange(len(column.levels))
                values = values[:, None] == codes
            found.append(values)
        return np.column_stack(found).astype("float64", copy=False)
