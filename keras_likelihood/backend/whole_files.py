"""Files that are written whole or not at all."""

import contextlib
import os
import pathlib
import secrets
import shutil


@contextlib.contextmanager
def replacing(path, temporary=None):
    """Yields the path of a temporary file, which then replaces `path`.

    The temporary file lies in the same folder and has the same suffix. If
    the block fails, by a full disk or by Ctrl-C, the temporary file is
    removed and `path` stays as it was. A symbolic link stays a link: the
    file it names is replaced. The default name of the temporary file is new,
    so that other processes do not use it at the same time.
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
            # The error of a full disk names no file. Other errors name the
            # temporary file.
            error.filename = os.fspath(path)
        raise
