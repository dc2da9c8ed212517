"""A table of rows in the memory of the device."""

import copy
import os
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

LARGEST_IN_MODEL = 2**30
"""Bytes of a table that a model file may ask for."""


class _Rows(keras.Variable):
    """Rows that devices may share, the last of them padding for equal shares.

    No file has the padding, so a file fits any number of devices.
    """

    saved_shape: tuple[int, int]

    def numpy(self):
        return whole_table(self)[: self.saved_shape[0]]

    def assign(self, value):
        missing = self.shape[0] - np.shape(value)[0]
        if missing:
            value = np.pad(value, ((0, missing), (0, 0)))
        return super().assign(value)


@serializable
class MemoryTable(FromArguments):
    """Keeps the rows of a `DataParameter` in a variable on the device.

    The numbers of a row lie side by side, so that a step reads and writes one
    piece of memory per example.

    Args:
        shard: axis of the device mesh of `keras.distribution` (JAX) over
            which the rows are laid out, such as `"batch"`: each device then
            has its share of the table. Defaults to `None`: what the
            `LayoutMap` says about `data_` and the parameter's name, else a
            copy on every device. On a single device it changes nothing.
    """

    shape: tuple
    _name: str
    _layout: Any
    _rows: _Rows

    def __init__(self, shard: str | None = None):
        self.shard, self._largest = shard, _memory()

    @classmethod
    def from_config(cls, config):
        table = cls(**config)
        table._largest = LARGEST_IN_MODEL
        return table

    def build(self, shape: tuple, name: str, about: dict) -> "MemoryTable":
        """A table of zeros, of shape `(rows, columns, size)`."""
        table = copy.copy(self)
        table.shape, table._name = shape, name
        table._layout = row_layout(name, self.shard)
        parts, processes = parts_of(table._layout)
        rows, columns, size = shape
        needed = 4 * rows * columns * size // processes
        if needed > self._largest:
            raise ValueError(
                f"A table may take up to {self._largest / 1e9:,.1f} GB here. "
                "Keep a larger one in a file with `table=FileTable(path)`, or "
                "check `num_examples`. Load a model file that you trust with "
                "`compile=False`, and compile it with a `DataParameter` of "
                f"your own. Received: a table of {needed / 1e9:,.1f} GB"
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
    def variables(self) -> list:
        return [self._rows]

    def read(self, index):
        """State `(batch, columns, size)` of the rows `index`."""
        rows = gather_rows(self._rows, index, self._layout)
        return ops.reshape(rows, (-1, *self.shape[1:]))

    def write(self, index, state):
        """Replaces the state of the rows `index`."""
        rows = ops.reshape(state, (-1, self.shape[1] * self.shape[2]))
        scatter_rows(self._rows, index, rows, self._layout)

    def view(self) -> np.ndarray:
        """State `(rows, columns, size)` of all rows, on the host."""
        return self._rows.numpy().reshape(self.shape)

    def assign(self, state):
        """Replaces all rows by `state` `(rows, columns, size)`."""
        self._rows.assign(np.reshape(state, self._rows.saved_shape))

    def resized(self, count: int, parts) -> "MemoryTable":
        """A table of `count` rows: those of the arrays `parts`, then zeros."""
        table = self.build((count, *self.shape[1:]), self._name, {})
        rows = np.concatenate([*parts], dtype="float32")
        table._rows.assign(rows.reshape(len(rows), -1))
        return table

    def flush(self):
        """Nothing to write, and below nothing to open, raise or close."""

    open_for_training = raise_error = close = flush


def _memory() -> float:
    """Bytes of memory of this machine; infinite where unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return float("inf")
