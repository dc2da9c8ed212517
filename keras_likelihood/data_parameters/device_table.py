"""A table of rows in the memory of the device."""

import os

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.rows import gather_rows, scatter_rows
from keras_likelihood.backend.sharding import (
    parts_of,
    row_layout,
    whole_table,
)


class _Rows(keras.Variable):
    """Rows that devices may share, equally many each.

    The last ones may be nobody's: they are there for equal shares, and no
    file has them, so that a file fits any number of devices.
    """

    num_rows: int

    @property
    def saved_shape(self) -> tuple:
        """The shape that files have."""
        return (self.num_rows, *self.shape[1:])

    def numpy(self):
        return whole_table(self)[: self.num_rows]

    def assign(self, value):
        missing = self.shape[0] - np.shape(value)[0]
        if missing:
            value = np.pad(value, ((0, missing), (0, 0)))
        return super().assign(value)


class DeviceTable:
    """Rows of numbers in one non-trainable variable, zero at first.

    What belongs to a row lies side by side, so that a step reads and writes
    one piece of memory per example. Under `keras.distribution` the rows may
    be laid out over an axis of the mesh, each device with its share.

    Args:
        num_rows: number of rows.
        slots: numbers kept per value of a row.
        size: values of a row.
        name: of the variable.
        shard: axis of the device mesh to lay the rows out over, or `None`
            for what the distribution says of a variable of this name.
    """

    needs_host = False
    batches_ahead = 0

    def __init__(
        self,
        num_rows: int,
        slots: int,
        size: int,
        name: str,
        shard: str | None = None,
    ):
        self.shape = (num_rows, slots, size)
        self._layout = row_layout(name, shard)
        parts, processes = parts_of(self._layout)
        _refuse_beyond_memory(4 * num_rows * slots * size // processes)
        self._rows = _Rows(
            shape=(-(-num_rows // parts) * parts, slots * size),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            name=name,
            layout=self._layout,
        )
        self._rows.num_rows = num_rows

    @property
    def variables(self) -> list:
        return [self._rows]

    def read(self, index):
        """State `(batch, slots, size)` of the rows `index`."""
        rows = gather_rows(self._rows, index, self._layout)
        return ops.reshape(rows, (-1, *self.shape[1:]))

    def write(self, index, state):
        """Puts the state of the rows `index` back."""
        rows = ops.reshape(state, (-1, self.shape[1] * self.shape[2]))
        scatter_rows(self._rows, index, rows, self._layout)

    def numpy(self, index=None) -> np.ndarray:
        """State `(rows, slots, size)` of some rows or all, on the host."""
        if index is None:
            return self._rows.numpy().reshape(-1, *self.shape[1:])
        index = self._inside(np.asarray(index))
        return ops.convert_to_numpy(self.read(ops.convert_to_tensor(index)))

    def _inside(self, index):
        """Row numbers as NumPy understands them, negative ones too."""
        count = self.shape[0]
        if index.dtype == bool:
            index = np.flatnonzero(index)
        if index.size and not -count <= index.min() <= index.max() < count:
            raise IndexError(
                f"The table has rows 0 to {count - 1}. "
                f"Received: {index.min()} to {index.max()}"
            )
        return np.where(index < 0, index + count, index).astype("int32")

    def save(self, path: str):
        """Writes the rows to an `.npz`."""
        np.savez(path, state=self.numpy())

    def assign(self, state: np.ndarray):
        """Replaces every row by `state` `(rows, slots, size)`."""
        self._rows.assign(np.reshape(state, self._rows.saved_shape))

    def prefetch(self, index):
        """Nothing to prepare: the rows are already here."""

    def settle(self):
        """Nothing to wait for: there is no file."""

    def flush(self):
        """Nothing to write: the rows live and die with the process."""

    def open_for_training(self):
        """Nothing to open: the rows are already here."""

    def raise_error(self):
        """Nothing happens on the host that could fail."""

    def close(self):
        """Nothing to close."""


def _refuse_beyond_memory(needed):
    """A number in a config must not take the machine down."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return
    if needed > memory:
        raise ValueError(
            "The table of a data parameter must fit in memory; give it a file "
            "with `store=path`, or check `num_examples`. Received: a table of "
            f"{needed / 1e9:,.0f} GB on a machine of {memory / 1e9:,.0f} GB"
        )
