"""A table of rows in a file, for what outgrows memory."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.host_calls import call_host
from keras_likelihood.backend.rows import replica_count
from keras_likelihood.data_parameters.row_file import RowFile


class MappedTable:
    """Rows of numbers in a memory-mapped file, zero at first.

    The training step asks the host for the rows of its batch and hands the
    new ones back; memory holds what the operating system chooses to cache.

    Args:
        path: of the file. An existing one is continued.
        num_rows: number of rows.
        slots: numbers kept per value of a row.
        size: values of a row.
        name: of the table.
    """

    needs_host = True

    def __init__(
        self, path: str, num_rows: int, slots: int, size: int, name: str
    ):
        if keras.distribution.distribution() or replica_count() > 1:
            raise ValueError(
                "A table on disk serves one device; keep it in memory "
                "(store=None) to train on several. "
                f"Received: store={path!r}"
            )
        self.shape = (num_rows, slots, size)
        self.file = RowFile(path, num_rows=num_rows, width=slots * size)
        # Orders the reads of a step after the writes of the one before.
        self._writes = keras.Variable(
            0, dtype="int32", trainable=False, name=f"{name}_writes"
        )

    @property
    def variables(self) -> list:
        return [self._writes]

    def read(self, index):
        """State `(batch, slots, size)` of the rows `index`."""
        return call_host(
            self._read,
            [index, ops.convert_to_tensor(self._writes)],
            shape=(index.shape[0], *self.shape[1:]),
            dtype="float32",
        )

    def write(self, index, state):
        """Puts the state of the rows `index` back."""
        count = call_host(
            self._write,
            [index, state, ops.convert_to_tensor(self._writes)],
            shape=(),
            dtype="int32",
        )
        self._writes.assign(count)

    def _read(self, index, _):
        return self.file.read(index).reshape(-1, *self.shape[1:])

    def _write(self, index, state, count):
        self.file.write(index, state.reshape(len(index), -1))
        return np.asarray(count + 1, "int32")

    def numpy(self, index=None) -> np.ndarray:
        """State `(rows, slots, size)` of some rows or all, on the host."""
        index = slice(None) if index is None else index
        return self.file.read(index).reshape(-1, *self.shape[1:])

    def assign(self, state: np.ndarray):
        """Replaces every row by `state` `(rows, slots, size)`."""
        state = np.reshape(state, (len(state), -1))
        for start in range(0, len(state), 4096):
            part = state[start : start + 4096]
            self.file.write(np.arange(start, start + len(part)), part)

    def announce(self, index):
        """Reads the rows `index` ahead of the step that needs them."""
        self.file.announce(np.asarray(index))

    def flush(self):
        """Waits until every row is on the disk."""
        self.file.flush()
