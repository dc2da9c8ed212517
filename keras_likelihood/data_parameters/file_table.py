"""A table of rows in a file, for what outgrows memory or outlives a process."""

import contextlib
import os
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.host_calls import call_host
from keras_likelihood.backend.rows import replica_count
from keras_likelihood.backend.staging import can_stage, default_batches_ahead
from keras_likelihood.data_parameters.row_file import RowFile
from keras_likelihood.data_parameters.row_stage import RowStage
from keras_likelihood.data_parameters.table_files import copy_rows


class FileTable:
    """Rows of numbers in a `RowFile`, zero at first.

    The training step asks the host for the rows of its batch and hands the
    new ones back; memory holds what the operating system chooses to cache.

    The file is opened when rows are first needed: for reading, without a
    lock, by those who read; for writing by a training, which makes it if it
    may. Before that nothing on the disk is touched.

    Args:
        path: of the file, or `None` for a table that `open` names later.
        num_rows: number of rows.
        slots: numbers kept per value of a row.
        size: values of a row.
        name: of the table.
        owner: whose rows these are; see `RowHeader`.
        sync: wait for the disk with every batch. Defaults to False.
        batches_ahead: how many batches have their rows on the device while
            they train; see `RowsAhead`. `None` takes what suits the device.
    """

    needs_host = True

    def __init__(
        self,
        path: str | None,
        num_rows: int,
        slots: int,
        size: int,
        *,
        name: str,
        owner: dict | None = None,
        sync: bool = False,
        batches_ahead: int | None = 0,
    ):
        _refuse_several_devices(path)
        self.shape = (num_rows, slots, size)
        self._owner = {**(owner or {}), "slots": slots, "size": size}
        self._sync = sync
        self._file = None
        self._error = None
        self.holds_errors = False
        self.name = name
        self.path, self._may_create = path, True
        if batches_ahead is None:
            batches_ahead = default_batches_ahead()
        if sync or not can_stage(num_rows):
            batches_ahead = 0
        self.batches_ahead = batches_ahead
        self.ahead: Any = None
        self.stage: Any = None
        self._in_stage = False
        # Orders the reads of a step after the writes of the one before.
        writes = f"{name}_writes"
        if batches_ahead:
            self.stage = RowStage(self.shape, name=writes)
            self._writes = self.stage.variable
        else:
            self._writes = keras.Variable(
                0, dtype="int32", trainable=False, name=writes
            )

    @property
    def variables(self) -> list:
        return [self._writes]

    def open(self, path: str, *, create: bool = False):
        """Names the file and looks whether it is this table's."""
        self.close()
        if not create and not os.path.exists(path):
            raise FileNotFoundError(
                f"There is no table at {path}. Name the file the model was "
                "trained with, or start anew with `create=True`. "
                f"Received: {path!r}"
            )
        self.path, self._may_create = path, create
        self._reader()

    def require_path(self):
        """Refuses a table that a saved model named and nobody opened."""
        if self.path is None:
            raise ValueError(
                f"The table {self.name} is named by a saved model, and "
                "loading a model opens no file. Open it with "
                "`model.data_parameters[name].open(path)`. "
                "Received: a table that is not open"
            )

    def _make(self, mode):
        self.require_path()
        rows, slots, size = self.shape
        return RowFile(
            self.path,
            num_rows=rows,
            width=slots * size,
            owner=self._owner,
            mode=mode,
            sync=self._sync,
        )

    def _reader(self):
        """The file, or `None` if it is still to be made."""
        self.require_path()
        if self._file is None and os.path.lexists(self.path):
            self._file = self._make("r")
        return self._file

    def open_for_training(self):
        """Takes the lock, makes the file if it may, and holds errors back."""
        _refuse_several_devices(self.path)
        self._error = None
        self._writer()
        self.holds_errors = True

    def _writer(self):
        if self._file is None or not self._file.writes:
            file = self._make("a" if self._may_create else "r+")
            if self._file is not None:
                self._file.close()
            self._file = file
        return self._file

    @contextlib.contextmanager
    def staged(self):
        """The context in which steps find their rows on the device."""
        self._in_stage = True
        try:
            yield
        finally:
            self._in_stage = False

    def prepare(self, indices: list, most: int):
        """As `RowStage.prepare`."""
        return self.stage.prepare(self._writer(), indices, most)

    def write_back(self):
        """As `RowStage.write_back`."""
        self.stage.write_back(self._writer())

    def read(self, index):
        """State `(batch, slots, size)` of the rows `index`."""
        if self._in_stage:
            return ops.reshape(self.stage.read(index), (-1, *self.shape[1:]))
        return call_host(
            self._read,
            [index, ops.convert_to_tensor(self._writes)],
            shape=(index.shape[0], *self.shape[1:]),
            dtype="float32",
        )

    def write(self, index, state):
        """Puts the state of the rows `index` back."""
        if self._in_stage:
            rows = ops.reshape(state, (-1, self.shape[1] * self.shape[2]))
            self.stage.write(index, rows)
            return
        count = call_host(
            self._write,
            [index, state, ops.convert_to_tensor(self._writes)],
            shape=self._writes.shape,
            dtype="int32",
        )
        self._writes.assign(count)

    def _read(self, index, _):
        with self._holding():
            return self.numpy(index)
        return np.zeros((len(index), *self.shape[1:]), "float32")

    def _write(self, index, state, count):
        with self._holding():
            # What was computed from rows that could not be read is nothing.
            if self._error is None:
                self._writer().write(index, state.reshape(len(index), -1))
        return np.asarray(count + 1, "int32")

    @contextlib.contextmanager
    def _holding(self):
        """Keeps an error for `raise_error` while `fit` runs.

        An error inside a compiled step reaches the caller without its type,
        and on JAX when the model's variables are gone; between two steps
        neither is so.
        """
        try:
            yield
        except Exception as error:
            if not self.holds_errors:
                raise
            self._error = self._error or error

    def raise_error(self):
        """Raises what went wrong on the host since the last call."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def numpy(self, index=None) -> np.ndarray:
        """State `(rows, slots, size)` of some rows or all, on the host."""
        index = slice(None) if index is None else index
        self.settle()
        file = self._reader()
        if file is None:
            numbers = np.empty((self.shape[0], 0))[index]
            return np.zeros((len(numbers), *self.shape[1:]), "float32")
        return file.read(index).reshape(-1, *self.shape[1:])

    def save(self, path: str):
        """Copies the file."""
        self.settle()
        file = self._reader()
        if file is None:
            raise ValueError(
                "There is nothing to save before the first training. "
                f"Received: store={self.path!r}, which is not there yet"
            )
        copy_rows(file, path)

    def assign(self, state: np.ndarray):
        """Replaces every row by `state` `(rows, slots, size)`."""
        self.settle()
        state = np.reshape(state, (len(state), -1))
        for start in range(0, len(state), 4096):
            part = np.asarray(state[start : start + 4096])
            numbers = np.arange(start, start + len(part))
            self._writer().write(numbers, part)

    def prefetch(self, index):
        """Reads the rows `index` ahead of the step that needs them."""
        file = self._reader()
        if file is not None:
            file.prefetch(np.asarray(index))

    def flush(self):
        """Waits until every row is on the disk."""
        # Steps may still be under way; the counter knows the last.
        ops.convert_to_numpy(self._writes)
        self.settle()
        if self._file is not None:
            self._file.flush()

    def close(self):
        """Closes the file; it is opened again when it is needed."""
        self.holds_errors = False
        try:
            self.settle()
        finally:
            if self.ahead is not None:
                self.ahead.stop()
            file, self._file = self._file, None
            if file is not None:
                file.close()

    def settle(self):
        """Lets the file have what lies on the device."""
        if self.ahead is not None:
            self.ahead.settle()

    def __getstate__(self):
        # Another process opens the file for itself.
        return {**self.__dict__, "_file": None, "_error": None, "ahead": None}


def _refuse_several_devices(path):
    if keras.distribution.distribution() or replica_count() > 1:
        raise ValueError(
            "A table on disk serves one device; keep it in memory "
            f"(store=None) to train on several. Received: store={path!r}"
        )
