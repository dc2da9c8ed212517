"""Tables of rows in device memory or in a file, and checks of stored rows."""

import contextlib
import copy
import json
import math
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import call_host
from keras_likelihood.backend.files import (
    FileError,
    Path,
    lock,
    map_array,
    open_regular,
    replacing,
    unlock,
)
from keras_likelihood.backend.operations import gather_rows, scatter_rows
from keras_likelihood.backend.processes import replica_count
from keras_likelihood.backend.types import Array, Tensor

_FORMAT = "keras_likelihood table 3"
_LONGEST = 2**20
"""Maximum size in bytes of a description."""


class MemoryTable:
    """Stores the rows of a `DataParameter` in a variable on the device."""

    def __init__(self, shape: tuple[int, ...], name: str) -> None:
        self.shape = shape
        rows, columns, size = shape
        # The numbers of a row are contiguous, one piece of memory per example.
        self._rows: Any = keras.Variable(
            shape=(rows, columns * size),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            name=name,
        )

    @property
    def variables(self) -> list[Any]:
        return [self._rows]

    def read(self, index: Tensor) -> Tensor:
        """State `(batch, columns, size)` of the rows `index`."""
        rows = gather_rows(self._rows, index)
        return ops.reshape(rows, (-1, *self.shape[1:]))

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
        table = MemoryTable((count, *self.shape[1:]), self._rows.name)
        rows = np.concatenate([*parts], dtype="float32")
        table.assign(np.pad(rows, ((0, count - len(rows)), (0, 0), (0, 0))))
        return table

    def flush(self) -> None:
        """Does nothing, like the other methods that a `FileTable` needs."""

    open_for_training = raise_error = close = flush


class FileTable:
    """Stores the rows of a `DataParameter` in a file.

    ```python
    table = kl.data_parameters.FileTable("scale.npy")
    scale = kl.DataParameter(len(x), dimension="element", table=table)
    ```

    The file is an ordinary `.npy` of `DataParameter.state`. The file
    `scale.npy.json` next to it describes the rows. `fit` creates the file or
    continues from it. Only one training at a time can write to it. Model files
    contain a copy of the rows; `DataParameter.to_file` moves the rows of a
    loaded model to a file.

    Args:
        path: path of the `.npy` file.
    """

    shape: tuple[int, ...]
    _about: dict[str, Any]
    _writes: keras.Variable

    def __init__(self, path: Path):
        self.path = os.path.realpath(path)
        self._rows: Any = None
        self._file: IO[bytes] | None = None
        self._error: Exception | None = None

    def build(
        self, shape: tuple[int, ...], name: str, about: dict[str, Any]
    ) -> "FileTable":
        """A table of shape `(rows, columns, size)`, without file access."""
        table = copy.copy(self)
        table._refuse_several_devices()
        table.shape, table._about = shape, about
        # Counts the writes, so each read depends on the previous write.
        options = {"dtype": "int32", "trainable": False}
        table._writes = keras.Variable(0, name=f"{name}_writes", **options)
        return table

    def _refuse_several_devices(self) -> None:
        if keras.distribution.distribution() or replica_count() > 1:
            raise ValueError(
                "A `FileTable` needs a single device. Keep the rows in memory "
                f"to train on several. Received: FileTable({self.path!r})"
            )

    @property
    def variables(self) -> list[Any]:
        return [self._writes]

    def read(self, index: Tensor) -> Tensor:
        """State `(batch, columns, size)` of the rows `index`."""
        shape = (index.shape[0], *self.shape[1:])
        given = [index, ops.convert_to_tensor(self._writes)]
        return call_host(self._read, given, shape=shape, dtype="float32")

    def write(self, index: Tensor, state: Tensor) -> None:
        """Replaces the state of the rows `index`."""
        given = [index, state, ops.convert_to_tensor(self._writes)]
        count = call_host(self._write, given, shape=(), dtype="int32")
        self._writes.assign(count)

    def _read(self, index: Array, _: Array) -> Array:
        # An error inside a compiled step would lose its type and, on JAX, the
        # variables of the model. So it is raised between two steps.
        try:
            self._refuse_changed_file()
            rows = np.asarray(self._current()[index], "float32")
            check_state([rows], self._about["columns"], self.path)
            return rows
        except Exception as error:
            if self._file is None:
                raise
            self._error = self._error or error
            return np.zeros((len(index), *self.shape[1:]), "float32")

    def _write(self, index: Array, state: Array, count: Array) -> Array:
        try:
            # A state that was computed without reading the rows is invalid.
            if self._error is None:
                self._writer()[index] = state
        except Exception as error:
            self._error = error
        return np.asarray(count + 1, "int32")

    def raise_error(self) -> None:
        """Raises an error that occurred on the host since the last call."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _current(self) -> Array:
        if self._rows is not None:
            return np.asanyarray(self._rows)
        if os.path.lexists(self.path):
            with open_regular(self.path) as file:
                return self._map(file)
        return np.broadcast_to(np.float32(0), self.shape)

    def _map(self, file: IO[bytes]) -> Array:
        """Maps the rows of an open file, after checking header and size."""
        check_about(self._about, self._read_about(), self.path)
        rows = map_array(file, self.path)
        if rows.dtype != np.dtype("<f4") or not rows.flags.c_contiguous:
            raise FileError(
                f"{self.path}: the rows must be float32 in C order. Restore "
                f"the table from a checkpoint. Received: {rows.dtype}"
            )
        if rows.shape != self.shape:
            raise ValueError(
                f"{self.path} has a wrong size. If there are new examples, set "
                "`num_examples` to the number of rows and call `append`. "
                f"Expected: shape {self.shape}. Received: shape {rows.shape}"
            )
        return rows

    def _read_about(self) -> dict[str, Any]:
        try:
            with open_regular(f"{self.path}.json") as file:
                about: dict[str, Any] = json.loads(file.read(_LONGEST))
            if about.pop("format") == _FORMAT:
                return about
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            pass
        raise FileError(
            f"{self.path} is not a table of data parameters. Choose another "
            f"path. Received: {self.path}.json, which is missing or has "
            "another format"
        )

    def view(self) -> Array:
        """The rows after all pending steps, without a copy."""
        ops.convert_to_numpy(self._writes)
        return self._current()

    def assign(self, state: Array) -> None:
        """Replaces all rows by `state`, `(rows, ...)`."""
        was_open = self._file is not None
        self._writer()[:] = np.reshape(state, self.shape)
        if not was_open:
            self.close()

    def resized(self, count: int, parts: Iterable[Array]) -> "FileTable":
        """A table of `count` rows, filled with the arrays `parts` and zeros."""
        table = copy.copy(self)
        table.shape = (count, *self.shape[1:])
        try:
            if os.path.lexists(self.path):
                table._lock()
                check_about(self._about, self._read_about(), self.path)
            table._make_file(parts)
        finally:
            table.close()
        return table

    def open_for_training(self) -> None:
        """Locks the file, and creates it if it does not exist."""
        self._refuse_several_devices()
        self._error = None
        self._writer()

    def _writer(self) -> Array:
        if self._file is None:
            if not os.path.lexists(self.path):
                self._make_file([], keep=True)
            try:
                file = self._lock()
                self._rows = self._map(file)
                self._status = os.fstat(file.fileno())
            except BaseException:
                self.close()
                raise
        self._refuse_changed_file()
        return np.asanyarray(self._rows)

    def _refuse_changed_file(self) -> None:
        # Reading beyond the end of a truncated file kills the process.
        if self._file is None:
            return
        with contextlib.suppress(FileNotFoundError):
            now, before = os.stat(self.path), self._status
            if os.path.samestat(now, before) and now.st_size == before.st_size:
                return
        raise OSError(
            f"{self.path} was deleted, replaced or truncated while it was "
            "in use. Restore the model and its rows from a checkpoint."
        )

    def _lock(self) -> IO[bytes]:
        file = open_regular(self.path, "r+b")
        if not lock(file):
            file.close()
            raise BlockingIOError(
                "Only one training can write to a table. Stop the other "
                "training, or call `close` on its DataParameter. `values()` "
                f"can still read it. Received: {self.path!r}, which is locked"
            )
        self._file = file
        return file

    def _make_file(self, parts: Iterable[Array], keep: bool = False) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        header = {"descr": "<f4", "fortran_order": False, "shape": self.shape}
        with replacing(self.path, keep=keep) as temporary:
            with open(temporary, "wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                end = file.tell() + 4 * math.prod(self.shape)
                for part in parts:
                    file.write(np.ascontiguousarray(part, "<f4").data)
                # A full disk raises an error here. Later it would kill the
                # process.
                while (left := end - file.tell()) > 0:
                    file.write(bytes(min(left, 2**20)))
            if os.path.lexists(f"{self.path}.json"):
                self._read_about()
            with replacing(f"{self.path}.json") as description:
                text = json.dumps({"format": _FORMAT, **self._about}, indent=1)
                description.write_text(text + "\n")

    def flush(self) -> None:
        if self._file is not None:
            ops.convert_to_numpy(self._writes)
            self._rows.flush()

    def close(self) -> None:
        """Closes the file and releases the lock."""
        file, self._rows, self._file = self._file, None, None
        if file is not None:
            unlock(file)
            file.close()


def check_about(
    expected: dict[str, Any], received: dict[str, Any], path: str
) -> None:
    """Raises an error if rows belong to another parameter."""
    expected, received = json.loads(json.dumps([expected, received]))
    differing = {
        name: (expected.get(name), received.get(name))
        for name in {**expected, **received}
        if expected.get(name) != received.get(name)
    }
    if differing:
        raise ValueError(
            f"{path} does not match this table. Expected: "
            f"{ {n: pair[0] for n, pair in differing.items()} }. "
            f"Received: { {n: pair[1] for n, pair in differing.items()} }"
        )


def in_parts(rows: Array, numbers: Array | None = None) -> Iterator[Array]:
    """Yields all rows, or the rows `numbers`, in parts that fit in memory."""
    count = max(1, 2**22 // rows[:1].size)
    for start in range(0, len(rows if numbers is None else numbers), count):
        part = slice(start, start + count)
        yield rows[part if numbers is None else numbers[part]]


def check_state(
    parts: Iterable[Array], columns: Iterable[str], path: str
) -> None:
    """Raises an error if rows cannot be the state of a table."""
    bad = total = 0
    for part in parts:
        if part.dtype.kind != "f":
            raise FileError(
                f"{path}: the rows must be real numbers. Received: {part.dtype}"
            )
        with np.errstate(over="ignore"):
            state = part.astype("float32")
        fits = np.isfinite(state).all(axis=(1, 2))
        for column, name in enumerate(columns):
            if name == "mean_square":
                fits &= (state[:, column] >= 0).all(axis=1)
        bad, total = bad + int((~fits).sum()), total + len(fits)
    if bad:
        raise FileError(
            f"{path} has rows that no training has written. Restore it from a "
            f"checkpoint. Received: {bad} of {total} rows with NaN, infinity "
            "or a negative mean square"
        )
