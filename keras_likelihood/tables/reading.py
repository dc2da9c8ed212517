"""Reads tables from data frames, arrays, files and batches."""

import collections
import difflib
import os
import pathlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from keras_likelihood.backend.extras import extras_for
from keras_likelihood.backend.files import FileError, Path, open_regular
from keras_likelihood.backend.types import Array
from keras_likelihood.tables import csv_files
from keras_likelihood.tables.columns import as_texts, has_value

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
    """Raises an error unless `target` is one of several columns."""
    if list(names).count(target) == 1 and len(names) > 1:
        return
    close = difflib.get_close_matches(target, names, n=1, cutoff=0.5)
    advice = (
        f"Did you mean {close[0]!r}? " if close not in ([], [target]) else ""
    )
    raise ValueError(
        f"{where}`target` must name one column, and the table needs another. "
        f"{advice}"
        f"Received: {target!r} of {', '.join(names[:20]) or 'no names'}"
    )


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


def read_columns(table: Any) -> tuple[list[str] | None, list[Array]]:
    """Names and cells of a DataFrame, a dict, or an array without names."""
    if not hasattr(table, "columns") and not isinstance(table, dict):
        cells = enumerate(np.asarray(table).T)
        return None, [checked_cells(values, str(at)) for at, values in cells]
    keys = list(getattr(table, "columns", table))
    names = list(map(str, keys))
    name, count = collections.Counter(names or [""]).most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"Column names must be unique. Received: {name} more than once"
        )
    return names, [checked_cells(table[key], str(key)) for key in keys]


def read_file(
    path: Path, note: Callable[[str], None] | None = None
) -> dict[str, Array]:
    """Columns of a .csv or .parquet file by name; equal texts are shared.

    `note` is called with sentences, without their full stops, about the texts
    that mean missing values and about a saved index, which is omitted.
    """
    file = open_table(path)
    names, cells = _join(file.pieces())
    if note and file.missing:
        texts = [
            f"{text or 'empty'} ({count:,})"
            for text, count in sorted(file.missing.items())
        ]
        note(f"Cells read as missing: {', '.join(texts[:20])}")
    is_counted = np.array_equal(cells[0], np.arange(len(cells[0])))
    first = int(names[0] in csv_files.INDEX and is_counted)
    if note and first:
        note(f"Ignored: {names[0] or 'column 0'} (the saved index)")
    return dict(zip(names[first:], cells[first:], strict=True))


def _join(pieces: Iterable[tuple[Any, list[Array]]]) -> tuple[Any, list[Array]]:
    """Joins the pieces of a table; returns the names and cells of columns."""
    names = None
    parts: list[list[np.ndarray]] = []
    known: dict[str, str] = {}
    for now, cells in pieces:
        if parts and (now != names or len(cells) != len(parts)):
            raise ValueError(
                f"All batches must have the same columns: {names or len(parts)}"
                f". Received: {now or len(cells)}"
            )
        names, parts = now, parts or [[] for _ in cells]
        for part, values in zip(parts, cells, strict=True):
            if values.dtype.kind in "OU":
                shared = [
                    known.setdefault(v, v) if isinstance(v, str) else v
                    for v in values.tolist()
                ]
                values = np.array(shared, object)
            part.append(values)
    if not parts:
        raise ValueError("There must be at least one batch. Received: none")
    columns = []
    while parts:
        part = parts.pop(0)
        if len({values.dtype.kind for values in part}) > 1:
            # NumPy would turn dates among objects into numbers.
            part = [v.astype(str) if v.dtype.kind == "M" else v for v in part]
            part = [v.astype(object) for v in part]
        columns.append(np.concatenate(part))
    return names, columns


def is_path(table: Any) -> bool:
    """Whether a table is the path of a file."""
    return isinstance(table, str | os.PathLike)


def _is_batches(table: Any) -> bool:
    """Whether `table` is an iterable of batches."""
    known = isinstance(table, list | tuple | dict)
    whole = any(hasattr(table, v) for v in ("shape", "columns", "__array__"))
    return hasattr(table, "__iter__") and not (known or whole)


def order_of(y: Any) -> list[Any] | None:
    """The classes of an ordered `Categorical` of pandas, else `None`."""
    dtype: Any = getattr(y, "dtype", None)
    return list(dtype.categories) if getattr(dtype, "ordered", False) else None


def with_targets(
    table: Any, y: Any, sample_weight: Any, target: str | None
) -> tuple[Any, Any, Any]:
    """Table, targets and weights of `fit`; 0 for rows without a target."""
    if is_path(table):
        table = read_file(table)
    elif _is_batches(table):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "Batches must contain their targets and weights. "
                "Received: `y` or `sample_weight` in addition to batches"
            )
        table, y, sample_weight = _read_batches(table, target)
    if target is None:
        return table, y, sample_weight
    if y is not None:
        raise ValueError(
            "Only one of `y` and `target` may be given. Received: both"
        )
    names, cells = read_columns(table)
    check_target(target, names or [])
    rest = dict(zip(names or [], cells, strict=True))
    y = rest.pop(target)
    known = has_value(y)
    if y.dtype.kind == "O" and any(isinstance(cell, str) for cell in y):
        # Some labels may look like numbers.
        y = np.array(as_texts(y), object)
    if not isinstance(table, dict) and target in table.columns:
        # Only pandas knows whether classes have an order.
        y = y if order_of(table[target]) is None else table[target]
    if not known.any():
        raise ValueError(f"The target `{target}` is missing in every row")
    # Commands read files before they import Keras.
    from keras_likelihood.likelihoods.checks import as_weight

    weight = as_weight(sample_weight, known.shape)
    if not known.all():
        warnings.warn(
            f"{(~known).sum()} row(s) without a target are left out.",
            stacklevel=3,
        )
        weight = weight * known
    return rest, y, weight


def _read_batches(
    batches: Iterable[Any], target: str | None
) -> tuple[Any, Any, Any]:
    """Table, targets and weights of batches."""
    beside = 0

    def pieces() -> Iterator[tuple[Any, list[Array]]]:
        nonlocal beside
        for batch in batches:
            if target is not None:
                batch = (batch,)
            elif not isinstance(batch, tuple) or len(batch) not in (2, 3):
                raise ValueError(
                    "A batch must be (X, y) or (X, y, sample_weight), or with "
                    f"`target` a table. Received: a {type(batch).__name__}"
                )
            names, cells = read_columns(batch[0])
            beside = len(batch) - 1
            yield names, [*cells, *map(np.asarray, batch[1:])]

    names, cells = _join(pieces())
    width = len(cells) - beside
    y, weight = [*cells[width:], None, None][:2]
    if names is None:
        return np.stack(cells[:width], axis=1), y, weight
    return dict(zip(names, cells, strict=False)), y, weight
