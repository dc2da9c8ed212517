"""Options and files of every command."""

import argparse
import contextlib
import itertools
import math
import os
import shlex
import stat
import tempfile
import textwrap
from collections.abc import Callable
from typing import Any

from keras_likelihood.commands.files import UsageError, regular_file
from keras_likelihood.tables.table_files import (
    check_target,
    is_text_table,
    open_table,
)


def number(
    kind: type, least: float, most: float = math.inf
) -> Callable[[str], float]:
    """A type for argparse: whole or other numbers in a range."""
    word = "whole number" if kind is int else "number"
    allowed = f"a {word} from {least} to {most}"
    if most == math.inf:
        allowed = f"a {word} >= {least}"

    def convert(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= (value := kind(text)) <= most:
                return value
        raise argparse.ArgumentTypeError(f"must be {allowed}. Received: {text}")

    return convert


TASK_OPTION = {
    "--task": "kind of target (default: detected from the model and the data)"
}
DATA_OPTIONS = {
    "--target": "the column of a .csv that holds the labels (default: the "
    "last)",
    "--probabilities": "the model returns probabilities, not logits",
}
_EVERY_COMMAND = {
    "--json": "print one JSON document instead of text",
    "--quiet": "print only errors and warnings",
    "--traceback": "show the traceback of an error",
    "--force": "overwrite existing outputs",
}
_SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_EVERY_COMMAND, {"action": "store_true"}),
    "--probabilities": {"action": "store_true"},
    "--task": {"choices": ["classification", "regression"]},
    "--data": {"required": True},
    "--epochs": {"type": number(int, 1)},
    "--seed": {"type": number(int, 0), "default": 0},
}
_INPUTS = ("model", "data", "test", "labels", "features", "apply")
"""Options that may be files. `features` may also be the name of a layer."""


def new_command(
    name: str,
    help: str,
    text: str,
    example: str,
    options: dict[str, str],
    **settings: dict[str, Any],
) -> Callable[[Any], argparse.ArgumentParser]:
    """Returns a function that adds a command to argparse subparsers.

    `options` maps each option to its help text. `settings` has other arguments
    of `add_argument`, by the name of the option without dashes.
    """

    def add_parser(subparsers: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = subparsers.add_parser(
            name,
            help=help,
            description=textwrap.fill(text, 78),
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        common = parser.add_argument_group("options of every command")
        for option, words in {**options, **_EVERY_COMMAND}.items():
            more = settings.get(option.strip("-"), _SETTINGS.get(option, {}))
            group = common if option in _EVERY_COMMAND else parser
            group.add_argument(option, help=words, **more)
        parser.set_defaults(flags={name.strip("-"): name for name in options})
        return parser

    return add_parser


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


def check_files(
    args: argparse.Namespace, *outputs: str, suffix: str = ""
) -> None:
    """Checks all files and the target, before a backend is imported.

    Inputs must exist, `outputs` are checked by `check_outputs`, and `--output`
    must end in `suffix`.
    """
    for name in ("model", "data", "test", "labels", "apply"):
        if (path := getattr(args, name, None)) is not None:
            regular_file(path)
    target = getattr(args, "target", None)
    if target and is_text_table(args.data):
        check_target(target, open_table(args.data).names, f"{args.data}: ")
    if args.output and not args.output.endswith(suffix):
        raise UsageError(
            f"--output must end in {suffix} for these inputs. "
            f"Received: {args.output}"
        )
    written, read = (
        {flag: getattr(args, k) for k, flag in args.flags.items() if k in names}
        for names in (outputs, _INPUTS)
    )
    check_outputs(written, read, args.force)


def check_outputs(
    outputs: dict[str, Any], inputs: dict[str, Any], force: bool
) -> None:
    """Raises an error if an output cannot or must not be written.

    An output must not be an input or another output, under any name. It must
    not exist, unless `force` is given, and its folder must be writable.
    """
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
