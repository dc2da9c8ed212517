"""The rows of a table on disk that some batches train on the device."""

import keras
import numpy as np

from keras_likelihood.backend import staging


class _Lines(keras.Variable):
    """A stage, which has as many lines as its batches need.

    A file of a model has one number in its place.
    """

    saved_shape: tuple = ()
    count = 1

    @property
    def shape(self):
        return (self.count, *super().shape[1:])

    def numpy(self):
        return np.zeros((), "int32")

    def assign(self, value):
        if np.ndim(value) == 0:
            value = np.full((1, self.shape[1]), value, "int32")
        self.count = value.shape[0]
        return super().assign(value)


class RowStage:
    """Has the newest state of the rows of some batches.

    `prepare` is for a thread beside the training, which is never at two
    things at once; the rest is for the training itself while that thread
    rests.

    Args:
        shape: of the table, `(rows, slots, size)`.
        name: of the variable.
    """

    def __init__(self, shape: tuple, name: str):
        self._num_rows = shape[0]
        width = int(np.prod(shape[1:]))
        self.variable = _Lines(
            np.zeros((1, width + 1), "int32"),
            dtype="int32",
            trainable=False,
            name=name,
        )
        self.forget()

    def forget(self):
        """Starts anew, without rows."""
        self._capacity = 0
        # What `prepare` made last, which may not have been entered yet.
        self._prepared = np.zeros(0, "int64")
        # The rows in training: their numbers, their lines on the device.
        self._numbers, self._lines = self._prepared, None
        self._leaving = None
        self.variable.assign(0)

    def prepare(self, file, indices: list, most: int):
        """Writes rows that training has left, then reads the next ones.

        Args:
            file: a `RowFile`.
            indices: row numbers of the next batches, an array each.
            most: how many batches there may be.

        Returns:
            What `enter` takes.
        """
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            _write(file, *leaving)
        before, inside = self._prepared, np.zeros(0, "int64")
        if indices:
            inside = np.clip(np.concatenate(indices), 0, self._num_rows - 1)
            largest = max(len(index) for index in indices)
            self._capacity = max(self._capacity, most * largest)
        numbers = np.unique(inside).astype("int64")
        kept = np.full(len(numbers), -1)
        if len(before):
            place = np.searchsorted(before, numbers).clip(max=len(before) - 1)
            kept = np.where(before[place] == numbers, place, -1)
        lines = staging.put(numbers, file.read(numbers), kept, self._capacity)
        self._prepared = numbers
        return numbers, lines

    def enter(self, before, prepared):
        """The stage of the next batches.

        Args:
            before: the stage of the batches before.
            prepared: what `prepare` returned.
        """
        if self._lines is not None:
            self._leaving = self._numbers, before
        self._numbers, lines = prepared
        # Keras compares the shapes of a state with those of its variables.
        self.variable.count = lines.shape[0]
        return staging.take_over(before, lines)

    def trained(self, lines):
        """Notes the stage after a step."""
        self._lines = lines

    def write_back(self, file):
        """Writes every row that is newer than the file's."""
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            _write(file, *leaving)
        lines, self._lines = self._lines, None
        # A step that failed has taken them.
        if lines is not None and not lines.is_deleted():
            _write(file, self._numbers, lines)

    def read(self, index):
        """Rows `(batch, width)` in a step."""
        return staging.read_stage(self.variable.value, index)

    def write(self, index, rows):
        """Replaces rows in a step."""
        stage = staging.write_stage(self.variable.value, index, rows)
        self.variable.assign(stage)


def _write(file, numbers, lines):
    file.write(numbers, staging.from_stage(lines)[: len(numbers)])
