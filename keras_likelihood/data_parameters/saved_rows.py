"""Checks and descriptions of stored rows."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_likelihood.backend.files import FileError
from keras_likelihood.backend.types import Array


def check_about(
    expected: dict[str, Any], received: dict[str, Any], path: str
) -> None:
    """Raises an error if rows belong to another parameter."""
    expected, received = json.loads(json.dumps([expected, received]))
    differing = {
        name: (expected.get(name), received.get(name))
        for name in {**expected, **received}
        if expected.get(name) != received.get(name)
    }
    if differing:
        raise ValueError(
            f"{path} does not match this table. Expected: "
            f"{ {n: pair[0] for n, pair in differing.items()} }. "
            f"Received: { {n: pair[1] for n, pair in differing.items()} }"
        )


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
