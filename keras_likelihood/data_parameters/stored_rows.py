"""Rows in device memory, and what stored rows must fulfil."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.files import FileError
from keras_likelihood.backend.operations import gather_rows, scatter_rows
from keras_likelihood.backend.types import Array, Tensor


class MemoryTable:
    """Stores the rows of a `DataParameter` in a variable on the device.

    The numbers of a row are contiguous, so a step reads and writes one piece of
    memory per example. The rows start at zero.
    """

    def __init__(self, shape: tuple[int, ...], name: str) -> None:
        self.shape = shape
        rows, columns, size = shape
        self._rows: Any = keras.Variable(
            shape=(rows, columns * size),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            name=name,
        )

    @property
    def variables(self) -> list[Any]:
        return [self._rows]

    def read(self, index: Tensor) -> Tensor:
        """State `(batch, columns, size)` of the rows `index`."""
        rows = gather_rows(self._rows, index)
        return ops.reshape(rows, (-1, *self.shape[1:]))

    def write(self, index: Tensor, state: Tensor) -> None:
        """Replaces the state of the rows `index`."""
        rows = ops.reshape(state, (-1, self._rows.shape[1]))
        scatter_rows(self._rows, index, rows)

    def view(self) -> Array:
        """State `(rows, columns, size)` of all rows, on the host."""
        return np.asarray(ops.convert_to_numpy(self._rows)).reshape(self.shape)

    def assign(self, state: Tensor) -> Any:
        """Replaces all rows by `state` `(rows, columns, size)`."""
        self._rows.assign(np.reshape(state, self._rows.shape))

    def resized(self, count: int, parts: Iterable[Array]) -> "MemoryTable":
        """A table of `count` rows, filled with the arrays `parts` and zeros."""
        table = MemoryTable((count, *self.shape[1:]), self._rows.name)
        rows = np.concatenate([*parts], dtype="float32")
        table.assign(np.pad(rows, ((0, count - len(rows)), (0, 0), (0, 0))))
        return table

    def flush(self) -> None:
        """Does nothing, like the other methods that a `FileTable` needs."""

    open_for_training = raise_error = close = flush


class Counts(keras.Variable):
    """Numbers of unknown rows and of non-finite updates.

    A compiled step cannot raise an error. It counts, and `raise_any` raises
    between two steps.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            np.zeros(2, "int32"),
            dtype="int32",
            trainable=False,
            # All replicas count the same joint batch.
            aggregation="only_first_replica",
            name=name,
        )

    def count(self, outside: Tensor, not_finite: Tensor) -> None:
        """Adds masks `(batch,)`."""
        marks = ops.cast(ops.stack([outside, not_finite]), "int32")
        self.assign(ops.convert_to_tensor(self) + ops.sum(marks, axis=1))

    def reset(self) -> None:
        self.assign(np.zeros(2, "int32"))

    def raise_any(self, name: str | None, num_rows: int) -> None:
        """Resets, and raises an error if there were invalid entries."""
        outside, not_finite = ops.convert_to_numpy(self)
        if outside or not_finite:
            self.reset()
        if outside:
            raise ValueError(
                f"The data {name} has rows 0 to {num_rows - 1}. "
                "Set `num_examples` to the size of the whole training set, or "
                "number the examples from 0. Other indices were ignored. "
                f"Received: {outside} index(es) outside since training began"
            )
        if not_finite:
            raise ValueError(
                f"The rows of the data {name} must be finite. Check the inputs "
                "and targets for NaN and infinity, or lower the learning rate "
                "of the model. The affected rows were not changed. Received: "
                f"{not_finite} row(s) that would not be finite"
            )


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
