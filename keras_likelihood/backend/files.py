"""Reads files of unknown origin, and replaces files atomically."""

import contextlib
import json
import math
import os
import pathlib
import secrets
import shutil
import stat
import zipfile
from collections.abc import Collection, Iterator
from typing import IO, Any, TypeAlias

import numpy as np

from keras_likelihood.backend.types import Array

Path: TypeAlias = str | os.PathLike[str]

LARGEST_RATIO = 100
"""An archive may unpack to this many times its size."""
_SMALL = 2**26
"""Bytes to which every archive may unpack."""
_SIZES = ("classes", "components", "hidden", "knots", "num_examples", "units")
"""Arguments that determine the sizes of weights, beside `members`."""


class FileError(ValueError):
    """A file cannot be used: damaged, of another kind, or too large.

    The message names the path and what to do.
    """


def open_regular(path: Path, mode: str = "rb") -> IO[bytes]:
    """Opens a regular file. It never waits for a pipe or reads a device."""
    flags = os.O_RDONLY if mode == "rb" else os.O_RDWR
    for name in ("O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, mode)
    os.close(descriptor)
    raise FileError(
        f"{os.fspath(path)}: a file is needed. Received: a folder, pipe or "
        "device"
    )


@contextlib.contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """A context in which all errors of damaged contents are a `FileError`.

    The error type depends on the fault, the backend and the version.
    """
    try:
        yield
    except (FileError, MemoryError):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise FileError(
            f"{os.fspath(path)}: the file is damaged, or it is not {kind}. "
            f"Use another copy, or write it again. Received: {text[:300]}"
        ) from error


def _header(file: Any, size: int) -> tuple[tuple[int, ...], str, np.dtype[Any]]:
    """Shape, order and dtype of an `.npy` with `size` bytes."""
    formats = np.lib.format
    try:
        version = formats.read_magic(file)
        read = {
            (1, 0): formats.read_array_header_1_0,
            (2, 0): formats.read_array_header_2_0,
        }[version]
        shape, is_fortran, dtype = read(file)
    except Exception as error:
        # Hostile headers raise any error, even `MemoryError`.
        raise ValueError(f"the header is wrong: {error}") from error
    if dtype.hasobject:
        raise ValueError(
            "it has pickled arrays, which are refused because loading them "
            "may run any code"
        )
    claimed = math.prod(shape) * dtype.itemsize
    if min(shape, default=1) < 0 or claimed != size - file.tell():
        raise ValueError(
            f"the header claims {claimed} bytes of shape {shape}, but there "
            f"are {size - file.tell()}"
        )
    return shape, "F" if is_fortran else "C", dtype


def map_array(file: IO[bytes], path: Path) -> Array:
    """A memory map of an open `.npy`, writable if the file is."""
    with reading(path, "an .npy of numbers"):
        size = os.fstat(file.fileno()).st_size
        shape, order, dtype = _header(file, size)
        mode: Any = "r+" if file.writable() else "r"
        if not math.prod(shape):
            return np.zeros(shape, dtype)
        return np.memmap(file, dtype, mode, file.tell(), shape, order)  # type: ignore[call-overload]


def read_arrays(
    path: Path,
    names: Collection[str] | None = None,
    *,
    file: IO[bytes] | None = None,
    size: int | None = None,
) -> dict[str, Array]:
    """The arrays of an `.npz`, by default all.

    Nothing is unpacked before the sizes and headers have been checked. `file`
    is the archive if it is part of the file at `path`, of `size` bytes.
    """
    with _opened(path, file) as content, reading(path, "an .npz archive"):
        with zipfile.ZipFile(content) as archive:
            check_sizes(archive, path, size or os.path.getsize(path))
            return {
                name: _read_entry(archive, entry)
                for entry in archive.infolist()
                if (name := entry.filename.removesuffix(".npy"))
                and (names is None or name in names)
            }


def _opened(path: Path, file: IO[bytes] | None) -> Any:
    return open_regular(path) if file is None else contextlib.nullcontext(file)


def array_names(path: Path) -> list[str]:
    """Names of the arrays in an `.npz`."""
    with open_regular(path) as file, reading(path, "an .npz archive"):
        with zipfile.ZipFile(file) as archive:
            return [n.removesuffix(".npy") for n in archive.namelist()]


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    with archive.open(entry) as file:
        shape, order, dtype = _header(file, entry.file_size)
        array = np.empty(math.prod(shape), dtype)
        if array.nbytes:
            left = memoryview(array.view("uint8").data)
            while left and (count := file.readinto(left)):  # type: ignore[attr-defined]
                left = left[count:]
            if left:
                raise ValueError(f"{len(left)} bytes are missing")
        # The checksum is compared at the end of the entry.
        file.read(1)
    return array.reshape(shape, order=order)  # type: ignore[call-overload]


def check_sizes(archive: zipfile.ZipFile, path: Path, size: int) -> None:
    """Raises an error if an archive unpacks to far more than its size."""
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(_SMALL, LARGEST_RATIO * size):
        raise FileError(
            f"{os.fspath(path)}: an archive must not unpack to more than "
            f"{LARGEST_RATIO} times its size. If you trust it, unpack it and "
            f"save it without compression. Received: {unpacked / 1e6:,.0f} MB "
            f"in {size / 1e6:,.1f} MB"
        )


def check_model(
    path: Path, *, file: IO[bytes] | None = None, size: int | None = None
) -> None:
    """Raises an error if a `.keras` file is damaged or needs too much memory.

    Layers and tables of this package must fit the stored weights, because they
    are built before the weights are read. See `read_arrays` for the arguments.
    """
    with _opened(path, file) as content, reading(path, "a .keras archive"):
        with zipfile.ZipFile(content) as archive:
            check_sizes(archive, path, size or os.path.getsize(path))
            if damaged := archive.testzip():
                raise ValueError(f"the checksum of {damaged!r} is wrong")
            stored = sum(
                entry.file_size
                for entry in archive.infolist()
                if entry.filename.endswith((".h5", ".npz"))
            )
            for name, size in _own_sizes(
                json.loads(archive.read("config.json"))
            ):
                if size > stored:
                    raise FileError(
                        f"{os.fspath(path)}: the layers must fit the stored "
                        f"weights of {stored} bytes. Use another copy. "
                        f"Received: {name}={size}"
                    )


def _own_sizes(part: Any) -> Iterator[tuple[str, int]]:
    """Names and values of the sizes in configs of this package's classes."""
    if isinstance(part, dict):
        name, own = str(part.get("registered_name")), part.get("config")
        if name.startswith("keras_likelihood>") and isinstance(own, dict):
            yield "members", (members := _largest(own.get("members")))
            for size in _SIZES:
                yield size, members * _largest(own.get(size))
        part = [*part.values()]
    for child in part if isinstance(part, list) else ():
        yield from _own_sizes(child)


def _largest(value: Any) -> int:
    numbers = (v for v in np.ravel(value) if isinstance(v, int | np.integer))
    return max(map(int, numbers), default=1)


@contextlib.contextmanager
def replacing(path: Path, *, keep: bool = False) -> Iterator[pathlib.Path]:
    """Yields the path of a temporary file, which then replaces `path`.

    It is in the same folder, with the same suffix and permissions. If the block
    fails, it is removed and `path` is not changed. If `path` is a symbolic
    link, its target is replaced. With `keep`, a file that another process has
    created in the meantime is kept.
    """
    target = pathlib.Path(os.path.realpath(path))
    suffix = "".join(target.suffixes)
    temporary = target.with_name(f".{secrets.token_hex(8)}{suffix}")
    try:
        mode = 0o600 if target.exists() else 0o666
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        os.close(os.open(temporary, flags, mode))
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        _move(temporary, target, keep)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The error would name the temporary file, or no file.
            error.filename = os.fspath(path)
        raise


def _move(temporary: pathlib.Path, target: pathlib.Path, keep: bool) -> None:
    if keep:
        try:
            os.link(temporary, target)
        except FileExistsError:
            pass
        except OSError:
            # Some file systems have no links.
            os.replace(temporary, target)
        temporary.unlink(missing_ok=True)
    else:
        os.replace(temporary, target)


def lock(file: IO[bytes]) -> bool:
    """Locks an open file, also through links; returns whether it was free."""
    try:
        try:
            import fcntl
        except ImportError:
            import msvcrt

            # The region beyond the end does not prevent reading.
            file.seek(2**62)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock(file: IO[bytes]) -> None:
    """Releases `lock`, even if a memory map still uses the file."""
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_UN)
