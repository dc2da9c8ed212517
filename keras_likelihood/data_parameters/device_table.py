"""A table of rows in the memory of the device."""

import os

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.rows import gather_rows, scatter_rows


class DeviceTable:
    """Rows of numbers in one non-trainable variable, zero at first.

    What belongs to a row lies side by side, so that a step reads and writes
    one piece of memory per example.

    Args:
        num_rows: number of rows.
        slots: numbers kept per value of a row.
        size: values of a row.
        name: of the variable.
    """

    needs_host = False

    def __init__(self, num_rows: int, slots: int, size: int, name: str):
        self.shape = (num_rows, slots, size)
        _refuse_beyond_memory(4 * num_rows * slots * size)
        self._rows = keras.Variable(
            shape=(num_rows, slots * size),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            name=name,
        )

    @property
    def variables(self) -> list:
        return [self._rows]

    def read(self, index):
        """State `(batch, slots, size)` of the rows `index`."""
        rows = gather_rows(self._rows, index)
        return ops.reshape(rows, (-1, *self.shape[1:]))

    def write(self, index, state):
        """Puts the state of the rows `index` back."""
        rows = ops.reshape(state, (-1, self.shape[1] * self.shape[2]))
        scatter_rows(self._rows, index, rows)

    def numpy(self, index=None) -> np.ndarray:
        """State `(rows, slots, size)` of some rows or all, on the host."""
        rows = ops.convert_to_numpy(self._rows)
        rows = rows if index is None else rows[index]
        return rows.reshape(-1, *self.shape[1:])

    def save(self, path: str):
        """Writes the rows to an `.npz`."""
        np.savez(path, state=self.numpy())

    def assign(self, state: np.ndarray):
        """Replaces every row by `state` `(rows, slots, size)`."""
        self._rows.assign(np.reshape(state, self._rows.shape))

    def prefetch(self, index):
        """Nothing to prepare: the rows are already here."""

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
