"""Tables of rows in a file, which need not fit in memory."""

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
    """Counts the writes, so each read depends on the previous write.

    Model files contain the rows instead of the count.
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
    """Stores the rows of a `DataParameter` in a file.

    ```python
    table = kl.data_parameters.FileTable("scale.npy")
    scale = kl.DataParameter(len(x), dimension="element", table=table)
    ```

    The file is an ordinary `.npy` of `DataParameter.state`, of shape
    `(rows, columns, size)`. The file `scale.npy.json` next to it describes the
    rows. `fit` creates the file if it does not exist, and continues from it
    otherwise.

    Only one training at a time can write to the file, which needs the package
    `filelock`. Reading is always possible. Model files and checkpoints contain
    a copy of the rows instead of the path. The table of a loaded model is in
    memory; `DataParameter.to_file` moves it to a file.

    Args:
        path: path of the `.npy` file.
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
        """A table of shape `(rows, columns, size)`, without file access."""
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
                "A `FileTable` needs a single device. Use a `MemoryTable` to "
                f"train on several. Received: FileTable({self.path!r})"
            )

    @property
    def variables(self) -> list:
        return [self._writes]

    def read(self, index):
        """State `(batch, columns, size)` of the rows `index`."""
        shape = (index.shape[0], *self.shape[1:])
        given = [index, ops.convert_to_tensor(self._writes)]
        return call_host(self._read, given, shape=shape, dtype="float32")

    def write(self, index, state):
        """Replaces the state of the rows `index`."""
        given = [index, state, ops.convert_to_tensor(self._writes)]
        count = call_host(self._write, given, shape=(), dtype="int32")
        self._writes.assign(count)

    def _read(self, index, _):
        # An error inside a compiled step would lose its type and, on JAX, the
        # variables of the model. So it is raised between two steps.
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
            # A state that was computed without reading the rows is invalid.
            if self._error is None:
                self._writer()[index] = state
        except Exception as error:
            self._error = error
        return np.asarray(count + 1, "int32")

    def raise_error(self):
        """Raises an error that occurred on the host since the last call."""
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
        """The rows after all pending steps, without a copy."""
        ops.convert_to_numpy(self._writes)
        return self._current()

    def assign(self, state):
        """Replaces all rows by `state`, `(rows, ...)`."""
        was_open = self._lock is not None
        self._writer()[:] = np.reshape(state, self.shape)
        if not was_open:
            self.close()

    def resized(self, count: int, parts) -> "FileTable":
        """A table of `count` rows, filled with the arrays `parts` and zeros."""
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
        """Acquires the lock and creates the file if it does not exist."""
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
        # Reading beyond the end of a truncated file kills the process.
        if self._lock is not None and self._identity != _identity(self.path):
            raise OSError(
                f"{self.path} was deleted, replaced or truncated while it was "
                "in use. Restore the model and its rows from a checkpoint."
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
                "Only one training can write to a table. Stop the other "
                "training, or call `close` on its DataParameter. `values()` "
                f"can still read it. Received: {self.path!r}, which is locked"
            ) from None
        self._lock = lock

    def _make_file(self, parts):
        header = {"descr": "<f4", "fortran_order": False, "shape": self.shape}
        # The name is fixed, so killed processes leave at most one file.
        with replacing(self.path, f"{os.path.basename(self.path)}.new") as new:
            with open(new, "wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                end = file.tell() + 4 * int(np.prod(self.shape, dtype="int64"))
                for part in parts:
                    file.write(np.ascontiguousarray(part, "<f4").data)
                # A full disk raises an error here. Later it would kill the
                # process.
                while (left := end - file.tell()) > 0:
                    file.write(bytes(min(left, 2**20)))
            write_about(self.path, self._about)

    def flush(self):
        if self._lock is not None:
            ops.convert_to_numpy(self._writes)
            self._rows.flush()

    def close(self):
        """Closes the file and releases the lock."""
        lock, self._rows, self._lock = self._lock, None, None
        if lock is not None:
            lock.release()


def _identity(path):
    """Identity of a file, which changes if it is replaced or truncated."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size
