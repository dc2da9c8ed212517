"""A table of rows in a file, for tables that do not fit in memory."""

import copy
import os
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import call_host
from keras_likelihood.backend.extras import extras_for
from keras_likelihood.backend.processes import replica_count
from keras_likelihood.backend.whole_files import replacing
from keras_likelihood.data_parameters.saved_rows import (
    check_file,
    open_rows,
    write_about,
)


class _Writes(keras.Variable):
    """Counts the writes, which orders each read after the write before it.

    In the files of a model, its place is taken by the rows themselves.
    """

    table: "FileTable"

    @property
    def saved_shape(self) -> tuple:
        rows, columns, size = self.table.shape
        return (rows, columns * size)

    def rows(self) -> np.ndarray:
        return self.table.view().reshape(self.saved_shape)

    def numpy(self):
        return np.array(self.rows())

    def assign(self, value):
        if len(np.shape(value)) == 2:
            self.table.assign(np.asarray(value))
            return value
        return super().assign(value)


class FileTable:
    """Keeps the rows of a `DataParameter` in a file.

    ```python
    table = kl.data_parameters.FileTable("scale.npy")
    scale = kl.DataParameter(len(x), dimension="element", table=table)
    ```

    The file is an ordinary `.npy` of `DataParameter.state`, of shape
    `(rows, columns, size)`. `scale.npy.json` beside it says what the rows are.
    `fit` makes the file if there is none and goes on with it otherwise.

    One training at a time can write to the file, which needs the package
    `filelock`; reading is possible at any time. Model files and checkpoints
    contain a copy of the rows, and not the path. The table of a loaded model
    is in memory; `DataParameter.to_file` moves it to a file.

    Args:
        path: of the `.npy` file.
    """

    shape: tuple
    _about: dict
    _writes: _Writes

    def __init__(self, path: str | os.PathLike):
        self.path = os.path.abspath(path)
        self._rows: Any = None
        self._lock: Any = None
        self._error: Exception | None = None

    def build(self, shape: tuple, name: str, about: dict) -> "FileTable":
        """A table of shape `(rows, columns, size)`; touches no file."""
        table = copy.copy(self)
        table._refuse_several_devices()
        table.shape, table._about = shape, about
        table._writes = _Writes(
            0, dtype="int32", trainable=False, name=f"{name}_writes"
        )
        table._writes.table = table
        return table

    def _refuse_several_devices(self):
        if keras.distribution.distribution() or replica_count() > 1:
            raise ValueError(
                "A `FileTable` serves one device; use a `MemoryTable` to "
                f"train on several. Received: FileTable({self.path!r})"
            )

    @property
    def variables(self) -> list:
        return [self._writes]

    def read(self, index):
        """State `(batch, columns, size)` of the rows `index`, in a step."""
        shape = (index.shape[0], *self.shape[1:])
        given = [index, ops.convert_to_tensor(self._writes)]
        return call_host(self._read, given, shape=shape, dtype="float32")

    def write(self, index, state):
        """Replaces the state of the rows `index`, in a step."""
        given = [index, state, ops.convert_to_tensor(self._writes)]
        count = call_host(self._write, given, shape=(), dtype="int32")
        self._writes.assign(count)

    def _read(self, index, _):
        # An error inside of a compiled step loses its type, and the model on
        # JAX its variables. It is raised between two steps instead.
        try:
            self._refuse_changed_file()
            return np.asarray(self._current()[index], "float32")
        except Exception as error:
            if self._lock is None:
                raise
            self._error = self._error or error
            return np.zeros((len(index), *self.shape[1:]), "float32")

    def _write(self, index, state, count):
        try:
            # What was computed from rows that could not be read is nothing.
            if self._error is None:
                self._writer()[index] = state
        except Exception as error:
            self._error = error
        return np.asarray(count + 1, "int32")

    def raise_error(self):
        """Raises what went wrong on the host since the last call."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _current(self):
        if self._rows is not None:
            return self._rows
        if os.path.lexists(self.path):
            return open_rows(self.path, self.shape, self._about)
        return np.broadcast_to(np.float32(0), self.shape)

    def view(self) -> np.ndarray:
        """The rows after the steps that are under way, without a copy."""
        ops.convert_to_numpy(self._writes)
        return self._current()

    def assign(self, state):
        """Replaces all rows by `state`, `(rows, ...)`."""
        was_open = self._lock is not None
        self._writer()[:] = np.reshape(state, self.shape)
        if not was_open:
            self.close()

    def resized(self, count: int, parts) -> "FileTable":
        """A table of `count` rows: those of the arrays `parts`, then zeros."""
        table = copy.copy(self)
        table.shape = (count, *self.shape[1:])
        table._take_lock()
        try:
            if os.path.lexists(self.path):
                check_file(self._about, self.path)
            table._make_file(parts)
        finally:
            table.close()
        table._writes.table = table
        return table

    def open_for_training(self):
        """Takes the lock; makes the file if there is none."""
        self._refuse_several_devices()
        self._error = None
        self._writer()

    def _writer(self):
        if self._lock is None:
            self._take_lock()
            try:
                if not os.path.lexists(self.path):
                    self._make_file([])
                self._rows = open_rows(self.path, self.shape, self._about, "r+")
                self._identity = _identity(self.path)
            except BaseException:
                self.close()
                raise
        self._refuse_changed_file()
        return self._rows

    def _refuse_changed_file(self):
        # Reading behind the end of a file that was cut ends the process.
        if self._lock is not None and self._identity != _identity(self.path):
            raise OSError(
                f"{self.path} was deleted, replaced or cut while it was in "
                "use. Restore the model and its rows from a checkpoint."
            )

    def _take_lock(self):
        with extras_for("`FileTable`"):
            import filelock
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        lock = filelock.FileLock(f"{self.path}.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            raise BlockingIOError(
                "A table has one writer at a time. End the other training, or "
                "call `close` on its DataParameter. Reading with `values()` is "
                f"possible. Received: {self.path!r}, which has a writer"
            ) from None
        self._lock = lock

    def _make_file(self, parts):
        header = {"descr": "<f4", "fortran_order": False, "shape": self.shape}
        # The writer alone uses this name, so that a process that was killed
        # leaves at most one such file.
        with replacing(self.path, f"{os.path.basename(self.path)}.new") as new:
            with open(new, "wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                end = file.tell() + 4 * int(np.prod(self.shape, dtype="int64"))
                for part in parts:
                    file.write(np.ascontiguousarray(part, "<f4").data)
                # A full disk is an error now. Later it would end the process.
                while (left := end - file.tell()) > 0:
                    file.write(bytes(min(left, 2**20)))
            write_about(self.path, self._about)

    def flush(self):
        if self._lock is not None:
            ops.convert_to_numpy(self._writes)
            self._rows.flush()

    def close(self):
        """Closes the file and gives the lock back."""
        lock, self._rows, self._lock = self._lock, None, None
        if lock is not None:
            lock.release()


def _identity(path):
    """What changes if another file takes the place of this one."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size
