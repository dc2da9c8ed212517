"""Atomic replacement of files."""

import contextlib
import os
import pathlib
import secrets
import shutil


@contextlib.contextmanager
def replacing(path, temporary=None):
    """Yields the path of a temporary file, which then replaces `path`.

    The temporary file is in the same folder and has the same suffix. If the
    block fails, for example by a full disk or Ctrl-C, the temporary file is
    removed and `path` is not changed. If `path` is a symbolic link, its target
    is replaced. The default name of the temporary file is random, so processes
    do not interfere.
    """
    target = pathlib.Path(os.path.realpath(path))
    suffix = "".join(target.suffixes)
    temporary = temporary or f".{secrets.token_hex(8)}{suffix}"
    temporary = target.with_name(temporary)
    try:
        with open(temporary, "wb"):
            pass
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            # The error would name the temporary file, or no file.
            error.filename = os.fspath(path)
        raise
