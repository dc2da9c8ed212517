"""Opens tables in files."""

import difflib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from keras_likelihood.backend.extras import extras_for
from keras_likelihood.backend.files import FileError, Path, open_regular
from keras_likelihood.backend.types import Array
from keras_likelihood.tables import csv_files

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
