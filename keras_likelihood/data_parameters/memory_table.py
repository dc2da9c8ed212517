"""Tables of rows in device memory."""

import copy
import os
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import FromArguments, serializable
from keras_likelihood.backend.rows import (
    gather_rows,
    parts_of,
    row_layout,
    scatter_rows,
    whole_table,
)
from keras_likelihood.backend.types import Array, Tensor

LARGEST_IN_MODEL = 2**30
"""Maximum size in bytes of a table in a model file."""


class _Rows(keras.Variable):
    """Rows that may be sharded, padded at the end for shards of equal size.

    Files do not contain the padding, so they fit any number of devices.
    """

    saved_shape: tuple[int, int]

    def numpy(self) -> Array:
        return whole_table(self)[: self.saved_shape[0]]

    def assign(self, value: Tensor) -> Any:
        missing = self.shape[0] - np.shape(value)[0]
        if missing:
            value = np.pad(value, ((0, missing), (0, 0)))
        return super().assign(value)


@serializable
class MemoryTable(FromArguments):
    """Stores the rows of a `DataParameter` in a variable on the device.

    The numbers of a row are contiguous, so a step reads and writes one piece of
    memory per example.

    Args:
        shard: axis of the device mesh of `keras.distribution` (JAX) along
            which the rows are sharded, such as `"batch"`. Defaults to `None`:
            the layout of the `LayoutMap` for `data_` and the parameter's
            name, otherwise a copy on every device. It has no effect on a
            single device.
    """

    shape: tuple[int, ...]
    _name: str
    _layout: Any
    _rows: _Rows

    def __init__(self, shard: str | None = None) -> None:
        self.shard, self._largest = shard, _memory()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "MemoryTable":
        table = cls(**config)
        table._largest = LARGEST_IN_MODEL
        return table

    def build(
        self, shape: tuple[int, ...], name: str, about: dict[str, Any]
    ) -> "MemoryTable":
        """A table of zeros, of shape `(rows, columns, size)`."""
        table = copy.copy(self)
        table.shape, table._name = shape, name
        table._layout = row_layout(name, self.shard)
        parts, processes = parts_of(table._layout)
        rows, columns, size = shape
        needed = 4 * rows * columns * size // processes
        if needed > self._largest:
            raise ValueError(
                f"A table must take at most {self._largest / 1e9:,.1f} GB. "
                "Use `table=FileTable(path)` for a larger table, or check "
                "`num_examples`. Load a trusted model file with "
                "`compile=False`, and compile it with your own "
                f"`DataParameter`. Received: a table of {needed / 1e9:,.1f} GB"
            )
        table._largest = _memory()
        table._rows = _Rows(
            shape=(-(-rows // parts) * parts, columns * size),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            name=name,
            layout=table._layout,
        )
        table._rows.saved_shape = (rows, columns * size)
        return table

    @property
    def variables(self) -> list[Any]:
        return [self._rows]

    def read(self, index: Tensor) -> Tensor:
        """State `(batch, columns, size)` of the rows `index`."""
        rows = gather_rows(self._rows, index, self._layout)
        return ops.reshape(rows, (-1, *self.shape[1:]))

    def write(self, index: Tensor, state: Tensor) -> None:
        """Replaces the state of the rows `index`."""
        rows = ops.reshape(state, (-1, self.shape[1] * self.shape[2]))
        scatter_rows(self._rows, index, rows, self._layout)

    def view(self) -> Array:
        """State `(rows, columns, size)` of all rows, on the host."""
        return self._rows.numpy().reshape(self.shape)

    def assign(self, state: Tensor) -> Any:
        """Replaces all rows by `state` `(rows, columns, size)`."""
        self._rows.assign(np.reshape(state, self._rows.saved_shape))

    def resized(self, count: int, parts: Iterable[Array]) -> "MemoryTable":
        """A table of `count` rows, filled with the arrays `parts` and zeros."""
        table = self.build((count, *self.shape[1:]), self._name, {})
        rows = np.concatenate([*parts], dtype="float32")
        table._rows.assign(rows.reshape(len(rows), -1))
        return table

    def flush(self) -> None:
        """Does nothing, like the other methods that a `FileTable` needs."""

    open_for_training = raise_error = close = flush


def _memory() -> float:
    """Memory of this machine in bytes, infinite if unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return float("inf")
