"""Tables of rows in device memory."""

from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.rows import gather_rows, scatter_rows
from keras_likelihood.backend.types import Array, Tensor


class MemoryTable:
    """Stores the rows of a `DataParameter` in a variable on the device.

    The numbers of a row are contiguous, so a step reads and writes one piece of
    memory per example.
    """

    shape: tuple[int, ...]
    _rows: Any

    def build(
        self, shape: tuple[int, ...], name: str, about: Any = None
    ) -> "MemoryTable":
        """A table of zeros, of shape `(rows, columns, size)`."""
        table = MemoryTable()
        table.shape = shape
        rows, columns, size = shape
        table._rows = keras.Variable(
            shape=(rows, columns * size),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            name=name,
        )
        return table

    @property
    def variables(self) -> list[Any]:
        return [self._rows]

    def read(self, index: Tensor) -> Tensor:
        """State `(batch, columns, size)` of the rows `index`."""
        return ops.reshape(
            gather_rows(self._rows, index), (-1, *self.shape[1:])
        )

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
        table = self.build((count, *self.shape[1:]), self._rows.name)
        rows = np.concatenate([*parts], dtype="float32")
        table.assign(np.pad(rows, ((0, count - len(rows)), (0, 0), (0, 0))))
        return table

    def flush(self) -> None:
        """Does nothing, like the other methods that a `FileTable` needs."""

    open_for_training = raise_error = close = flush
