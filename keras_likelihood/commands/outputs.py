"""Rules for every file that a command writes."""

import itertools
import os
import stat
import tempfile

from keras_likelihood.commands.command_error import UsageError


def check_outputs(outputs: dict, inputs: dict, force: bool) -> None:
    """Raises an error before any work if an output would destroy a file.

    An output must not be an input or another output, under any name. It must
    not exist, unless `force` is given, and its folder must be writable.
    """
    seen = {k: v for k, v in inputs.items() if v is not None}
    for flag, path in outputs.items():
        if path is None:
            continue
        path = os.fspath(path)
        _check_kind(flag, path)
        for other, known in seen.items():
            if _same_file(path, known):
                raise UsageError(
                    f"{flag} must not be the file of {other}. Received: {path}"
                )
        if os.path.lexists(path) and not force:
            raise UsageError(
                f"{flag}: the file exists. --force replaces it. "
                f"Received: {path}"
            )
        _try_folder(flag, path)
        seen[flag] = path


def unused(path: str) -> str:
    """A name like this one that no file has, for the next command."""
    stem, suffix = os.path.splitext(path)
    names = (f"{stem}_{number}{suffix}" for number in itertools.count(2))
    every = itertools.chain([path], names)
    return next(name for name in every if not os.path.lexists(name))


def _check_kind(flag, path):
    """The path must be a regular file, or not exist."""
    is_file = path and not path.endswith(os.sep)
    try:
        is_file = is_file and stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UsageError(
            f"{flag}: the file cannot be written ({error.strerror}). "
            f"Received: {path}"
        ) from error
    if not is_file:
        raise UsageError(f"{flag} must name a file. Received: {path!r}")


def _same_file(path, other):
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def _try_folder(flag, path):
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"{flag}: there is no such folder. Received: {path}")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix="."):
            pass
    except OSError as error:
        raise UsageError(
            f"{flag}: the folder cannot be written to ({error.strerror}). "
            f"Received: {path}"
        ) from error
