"""Files of rows and their descriptions."""

import json
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

from keras_likelihood.backend.files import (
    FileError,
    map_array,
    open_regular,
    replacing,
)
from keras_likelihood.backend.types import Array

_FORMAT = "keras_likelihood table 3"
_LONGEST = 2**20
"""Maximum size in bytes of a description."""


def write_about(path: str, about: dict[str, Any]) -> None:
    """Writes `path.json`, unless it exists in another format."""
    if os.path.lexists(f"{path}.json"):
        _read_about(path)
    with replacing(f"{path}.json") as temporary:
        text = json.dumps({"format": _FORMAT, **about}, indent=1)
        temporary.write_text(text + "\n")


def _read_about(path: str) -> dict[str, Any]:
    try:
        with open_regular(f"{path}.json") as file:
            about: dict[str, Any] = json.loads(file.read(_LONGEST))
        if about.pop("format") == _FORMAT:
            return about
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        pass
    raise FileError(
        f"{path} is not a table of data parameters. Choose another path. "
        f"Received: {path}.json, which is missing or has another format"
    )


def check_about(
    expected: dict[str, Any], received: dict[str, Any], path: str
) -> None:
    """Raises an error if rows belong to another parameter."""
    expected, received = json.loads(json.dumps([expected, received]))
    differing = [
        name
        for name in {**expected, **received}
        if expected.get(name) != received.get(name)
    ]
    if differing:
        raise ValueError(
            f"{path} does not match this table. Expected: "
            f"{ {n: expected.get(n) for n in differing} }. "
            f"Received: { {n: received.get(n) for n in differing} }"
        )


def check_file(path: str, about: dict[str, Any]) -> None:
    """Raises an error if `path` is not a table of this parameter."""
    check_about(about, _read_about(path), path)


def map_rows(
    file: IO[bytes], path: str, shape: tuple[int, ...], about: dict[str, Any]
) -> Array:
    """Maps the open table at `path`, after checking header and size."""
    check_file(path, about)
    rows = map_array(file, path)
    if rows.dtype != np.dtype("<f4") or not rows.flags.c_contiguous:
        raise FileError(
            f"{path}: the rows must be float32 in C order. Restore the table "
            f"from a checkpoint. Received: {rows.dtype}"
        )
    if rows.shape != shape:
        raise ValueError(
            f"{path} has a wrong size. If there are new examples, set "
            "`num_examples` to the number of rows and call `append`. "
            f"Expected: shape {shape}. Received: shape {rows.shape}"
        )
    return rows


def open_rows(
    path: str, shape: tuple[int, ...], about: dict[str, Any]
) -> Array:
    """The rows of the table at `path`, as a read-only memory map."""
    with open_regular(path) as file:
        return map_rows(file, path, shape, about)


def in_parts(rows: Array, numbers: Array | None = None) -> Iterator[Array]:
    """Yields all rows, or the rows `numbers`, in parts that fit in memory."""
    count = max(1, 2**22 // rows[:1].size)
    for start in range(0, len(rows if numbers is None else numbers), count):
        part = slice(start, start + count)
        yield rows[part if numbers is None else numbers[part]]


def check_state(
    parts: Iterable[Array], columns: Iterable[str], path: str
) -> None:
    """Raises an error if rows cannot be the state of a table."""
    bad = total = 0
    for part in parts:
        if part.dtype.kind != "f":
            raise FileError(
                f"{path}: the rows must be real numbers. Received: {part.dtype}"
            )
        with np.errstate(over="ignore"):
            state = part.astype("float32")
        fits = np.isfinite(state).all(axis=(1, 2))
        for column, name in enumerate(columns):
            if name == "mean_square":
                fits &= (state[:, column] >= 0).all(axis=1)
        bad, total = bad + int((~fits).sum()), total + len(fits)
    if bad:
        raise FileError(
            f"{path} has rows that no training has written. Restore it from a "
            f"checkpoint. Received: {bad} of {total} rows with NaN, infinity "
            "or a negative mean square"
        )


def pack(about: dict[str, Any]) -> Array:
    """A description as an array of bytes."""
    return np.frombuffer(json.dumps(about).encode(), "uint8")


def unpack(about: Array) -> dict[str, Any]:
    """The inverse of `pack`."""
    return dict(json.loads(np.asarray(about, "uint8").tobytes()))
