"""Checks the files of every command, and writes command lines."""

import argparse
import contextlib
import itertools
import os
import shlex
import stat
import tempfile
from typing import Any

from keras_likelihood.commands.files import UsageError, regular_file
from keras_likelihood.commands.options import COMMANDS
from keras_likelihood.tables.reading import (
    check_target,
    is_text_table,
    open_table,
)

_INPUTS = ("model", "data", "test", "labels", "apply")


def shell(*words: Any, **options: Any) -> str:
    """A `keras-likelihood` command line with quoted file names.

    Words and options that are `None` or `False` are left out.

    >>> shell("detect", "my table.csv", save="detector.zip", force=True)
    "keras-likelihood detect 'my table.csv' --save detector.zip --force"
    """
    line = ["keras-likelihood", *(str(w) for w in words if w is not None)]
    for name, value in options.items():
        if value is not None and value is not False:
            line += [f"--{name}"] + [str(value)] * (value is not True)
    return shlex.join(line)


def shell_on_data(args: argparse.Namespace, name: str, **options: Any) -> str:
    """A command line for the same model and data."""
    names = ("data", "target", "task", "probabilities")
    own = {option: getattr(args, option) for option in names}
    return shell(name, args.model, **own, **options)


def unused(path: str) -> str:
    """A similar name that no file has, for the next command."""
    stem, suffix = os.path.splitext(path)
    names = (f"{stem}_{number}{suffix}" for number in itertools.count(2))
    every = itertools.chain([path], names)
    return next(name for name in every if not os.path.lexists(name))


def check_files(args: argparse.Namespace) -> None:
    """Completes the names of outputs, and checks all files and the target."""
    command = COMMANDS[args.command]
    for name, path in command.defaults(args).items():
        setattr(args, name, getattr(args, name) or path)
    flags = {flag.strip("-"): flag for flag in command.options}
    inputs = {n: getattr(args, n) for n in _INPUTS if n in flags}
    for path in inputs.values():
        if path is not None:
            regular_file(path)
    if (model := inputs.get("model")) and not model.endswith(".keras"):
        raise UsageError(f"The model must be a .keras file. Received: {model}")
    target = getattr(args, "target", None)
    if target and is_text_table(args.data):
        check_target(target, open_table(args.data).names, f"{args.data}: ")
    if args.output and not args.output.endswith(suffix := command.suffix(args)):
        raise UsageError(
            f"--output must end in {suffix} for these inputs. "
            f"Received: {args.output}"
        )
    check_outputs(
        {flags[name]: getattr(args, name) for name in command.outputs},
        {flags[name]: path for name, path in inputs.items()},
        args.force,
    )


def check_outputs(
    outputs: dict[str, Any], inputs: dict[str, Any], force: bool
) -> None:
    """Raises an error if an output cannot or must not be written."""
    seen = {k: v for k, v in inputs.items() if v is not None}
    for flag, path in outputs.items():
        if path is not None:
            path = os.fspath(path)
            try:
                fault = _fault(path, seen, force)
            except OSError as error:
                fault = f": this place cannot be written to ({error.strerror})"
            if fault:
                raise UsageError(f"{flag}{fault}. Received: {path!r}")
            seen[flag] = path


def _fault(path: str, taken: dict[str, Any], force: bool) -> str:
    """Why a file may not be written, after the name of its option, or ""."""
    is_file = path and not path.endswith(os.sep)
    with contextlib.suppress(FileNotFoundError):
        is_file = is_file and stat.S_ISREG(os.stat(path).st_mode)
    if not is_file:
        return " must name a file"
    for flag, other in taken.items():
        if _same_file(path, other):
            return f" must not be the file of {flag}"
    if os.path.lexists(path) and not force:
        return ": the file exists. --force replaces it"
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        return ": there is no such folder"
    with tempfile.NamedTemporaryFile(dir=folder, prefix="."):
        return ""


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)
