"""The `keras-likelihood` command."""

import argparse
import os
import sys
import warnings

from keras_likelihood.commands import audit, demo, detect, recalibrate
from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.version import __version__

COMMANDS = {
    "demo": demo,
    "recalibrate": recalibrate,
    "audit": audit,
    "detect": detect,
}
EXTRAS = {
    "tensorflow": "tensorflow",
    "jax": "jax",
    "torch": "torch",
    "matplotlib": "plots",
    "rich": "demo",
    "sklearn": "recalibration,outliers",
    "scipy": "recalibration,outliers",
}
"""Extras that bring a module which commands need."""
LONGEST_LINE = 600


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: list[str] | None = None) -> int:
    """Runs one command.

    Returns:
        The exit status: 0; 2 if something given to the command is wrong; 1
        for a fault of the command itself; 130 after Ctrl-C.
    """
    options = _parser().parse_args(arguments)
    # TensorFlow logs its start to stderr, where users look for errors.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return options.run(options)
        except (Exception, KeyboardInterrupt) as error:
            if options.traceback:
                raise
            status, text = describe(error)
            _say(f"{options.command}: {text}")
            return status


def _parser():
    parser = _Parser(
        prog="keras-likelihood",
        description="Your loss should be a likelihood.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}"
    )
    for command in COMMANDS.values():
        command.add_parser(commands).add_argument(
            "--traceback",
            action="store_true",
            help="show where in the program an error was raised",
        )
    return parser


def describe(error: BaseException) -> tuple[int, str]:
    """The exit status and the line that an error ends a command with."""
    if isinstance(error, KeyboardInterrupt):
        return 130, "interrupted; no half-written file is left"
    if isinstance(error, ModuleNotFoundError):
        module = (error.name or "").partition(".")[0]
        if module in EXTRAS:
            return 2, (
                f"needs {module}, which comes with "
                f'`pip install "keras-likelihood[{EXTRAS[module]}]"`'
            )
    if isinstance(error, MemoryError):
        return 2, f"there is too little memory for this ({error})"
    if isinstance(error, OSError) and error.filename is not None:
        return 2, f"{error.filename}: {error.strerror}"
    if isinstance(error, CommandError | ValueError | OSError):
        return 2, str(error)
    return 1, (f"unexpected {type(error).__name__}, see --traceback: {error}")


def _show_warning(message, *_, **__):
    _say(f"warning: {message}")


def _say(text):
    """Writes one line; text from files may hold line breaks and worse."""
    line = " ".join(text.split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]}..."
    print(line, file=sys.stderr)
