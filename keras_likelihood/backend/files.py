"""Opens files of unknown origin, and replaces files atomically."""

import contextlib
import math
import os
import pathlib
import secrets
import shutil
import stat
from collections.abc import Iterator
from typing import IO, Any, TypeAlias

import numpy as np

from keras_likelihood.backend.types import Array

Path: TypeAlias = str | os.PathLike[str]


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


def npy_header(
    file: Any, size: int
) -> tuple[tuple[int, ...], str, np.dtype[Any]]:
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
        shape, order, dtype = npy_header(file, size)
        mode: Any = "r+" if file.writable() else "r"
        if not math.prod(shape):
            return np.zeros(shape, dtype)
        return np.memmap(file, dtype, mode, file.tell(), shape, order)  # type: ignore[call-overload]


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
