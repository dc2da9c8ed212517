"""Options and files of every command."""

import argparse
import itertools
import os
import shlex
import stat
import tempfile
import textwrap

from keras_likelihood.commands.files import UsageError


def new_command(subparsers, name: str, *, help: str, text: str, example: str):
    """Adds a command with the options that every command has."""
    parser = subparsers.add_parser(
        name,
        help=help,
        description=textwrap.fill(text, 78),
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON document instead of text",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="print neither text nor progress; errors are still printed",
    )
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="show where in the program an error was raised",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace outputs that exist"
    )
    return parser


def add_task(parser):
    """Adds the option that says what kind of model it is."""
    parser.add_argument(
        "--task",
        choices=["classification", "regression"],
        help="kind of target (default: detected from the model and the data)",
    )


def add_data_options(parser):
    """Adds the options that say how to read data and outputs."""
    parser.add_argument(
        "--target",
        help="the column of a .csv that holds the labels (default: the last)",
    )
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="the model returns probabilities, not logits",
    )


def at_least(least: int):
    """A type for argparse: whole numbers that are at least `least`."""

    def whole_number(text):
        if int(text) < least:
            raise argparse.ArgumentTypeError(
                f"must be a whole number >= {least}. Received: {text}"
            )
        return int(text)

    # argparse shows this name if the text is not a number.
    whole_number.__name__ = f"whole number >= {least}"
    return whole_number


def shell(*words, **options) -> str:
    """A command line of ours in which file names are quoted.

    Words and options that are `None` or `False` are left out.

    >>> shell("detect", "my table.csv", save="detector.zip", force=True)
    "keras-likelihood detect 'my table.csv' --save detector.zip --force"
    """
    line = ["keras-likelihood", *(str(w) for w in words if w is not None)]
    for name, value in options.items():
        if value is not None and value is not False:
            line += [f"--{name}"] + [str(value)] * (value is not True)
    return shlex.join(line)


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
