"""Reads tables from data frames, arrays, files and batches."""

import collections
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.tables.columns import as_texts, has_value
from keras_likelihood.tables.table_files import (
    check_target,
    checked_cells,
    is_index,
    open_table,
)


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
    first = int(is_index(names[0], cells[0]))
    if note and first:
        note(f"Ignored: {names[0] or 'column 0'} (the saved index)")
    return dict(zip(names[first:], cells[first:], strict=True))


def _join(
    pieces: Iterable[tuple[Any, list[Array]]],
) -> tuple[Any, list[Array]]:
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
                    "A batch must be (X, y) or (X, y, sample_weight), or a "
                    "table if `target` names a column. Received: a "
                    f"{type(batch).__name__}"
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
