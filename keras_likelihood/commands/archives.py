"""Opens zip archives of unknown origin safely."""

import contextlib
import os
import pathlib
import stat
import zipfile

from keras_likelihood.commands.command_error import CommandError, UsageError

_MOST_DEFLATED = 100
"""Bytes that a packed byte may become in an archive of more than `_FREE`.

A byte of a damaged or malicious file may claim to become a thousand.
"""
_FREE = 2**26
_HOW = {".npz": ", as `numpy.savez('data.npz', x=x, y=y)` writes it"}
"""How to make a file of each kind, for the error message."""


def regular_file(path) -> pathlib.Path:
    """The path of a file. Raises an error if it is missing or empty."""
    path = pathlib.Path(path)
    try:
        found = os.stat(path)
    except OSError as error:
        raise UsageError(f"There is no such file: {path}") from error
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(
            f"{path}: a file is needed. Received: a folder or device"
        )
    if found.st_size == 0:
        raise CommandError(f"{path}: the file is empty")
    return path


@contextlib.contextmanager
def open_archive(path, kind: str):
    """Opens a zip archive, such as an ".npz", after a check of its entries.

    Any error inside the block is reported as a damaged file.
    """
    path = regular_file(path)
    if not zipfile.is_zipfile(path):
        raise CommandError(
            f"{path}: the file must be a {kind} file{_HOW.get(kind, '')}. "
            "Received: a damaged file, or one of another kind"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            _check_entries(archive, path.stat().st_size)
            yield archive
    except (CommandError, MemoryError):
        raise
    except Exception as error:
        raise CommandError(
            f"{path}: the file is damaged, or it is not a {kind} archive "
            f"({type(error).__name__}: {error})"
        ) from error


def _check_entries(archive, size):
    """Raises an error if entries claim more bytes than are possible."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        raise ValueError("two entries have one name")
    if sum(entry.compress_size for entry in entries) > size:
        raise ValueError("its entries claim more bytes than the file has")
    for entry in entries:
        kinds = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
        if entry.compress_type not in kinds or entry.flag_bits & 1:
            raise ValueError(
                f"entry {entry.filename!r} is encrypted, or packed by other "
                "means than deflate"
            )
    claimed = sum(entry.file_size for entry in entries)
    if claimed > _FREE + _MOST_DEFLATED * size:
        raise ValueError(
            f"its entries claim {claimed:,} bytes, more than {_MOST_DEFLATED} "
            f"times the {size:,} bytes of the file"
        )
