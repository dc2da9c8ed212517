"""Parses the command line, runs a command and describes errors."""

import argparse
import contextlib
import importlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NoReturn

from keras_likelihood.backend.extras import how_to_install
from keras_likelihood.cli import INTERRUPTED, interrupts
from keras_likelihood.commands.console import Console, printable
from keras_likelihood.commands.files import CommandError, check_files
from keras_likelihood.commands.options import COMMANDS
from keras_likelihood.version import __version__

EXIT_STATUS = """
exit status:
  0    success
  1    the data or the model cannot be used, or something else failed
  2    the command line is wrong: an option, a missing file, an output
       that exists or cannot be written
  130  interrupted by Ctrl-C or SIGTERM
"""
LONGEST_LINE = 600


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def run(arguments: list[str] | None) -> int:
    """Runs one command and returns the exit status, see `EXIT_STATUS`."""
    parser = build_parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(arguments)
    for name in ("tensorflow", "jax", "absl"):
        logging.getLogger(name).setLevel(logging.ERROR)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    options.console = Console(
        options.command, as_json=options.json, quiet=options.quiet
    )
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")
        if not options.quiet:
            print("keras-likelihood: stdout is closed", file=sys.stderr)
            return 1
    if arguments is not None or options.traceback:
        return _run(options)
    with _without_backend_logs():
        return _run(options)


def _run(options: argparse.Namespace) -> int:
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            # Before a backend is imported, which takes seconds.
            check_files(options)
            place = f"keras_likelihood.commands.{options.command}"
            importlib.import_module(place).run(options)
        options.console.finish()
        sys.stdout.flush()
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if options.traceback and not isinstance(error, BrokenPipeError):
            raise
        status, text = describe(KeyboardInterrupt() if interrupts else error)
    if text:
        text = _one_line(f"{options.command}: {text}")
        print(text, file=sys.stderr)
        options.console.result(error=text, status=status)
    try:
        options.console.finish()
        sys.stdout.flush()
    except OSError:
        # Otherwise Python would try to flush stdout again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


@contextlib.contextmanager
def _without_backend_logs() -> Iterator[None]:
    """Silences the C++ code of backends, which no setting does."""
    try:
        real = os.dup(2)
    except OSError:
        yield
        return
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    before, sys.stderr = sys.stderr, open(real, "w", 1, closefd=False)
    try:
        yield
    finally:
        sys.stderr = before
        os.dup2(real, 2)


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="keras-likelihood",
        description="Your loss should be a likelihood.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}"
    )
    parser.epilog = "examples:\n"
    for name, command in COMMANDS.items():
        command.add_to(commands, name)
        parser.epilog += f"  {command.example}\n"
    parser.epilog += EXIT_STATUS
    return parser


def describe(error: BaseException) -> tuple[int, str]:
    """Exit status and error message for an exception."""
    if isinstance(error, BrokenPipeError):
        # The program that read the output, such as `head`, has ended.
        return 1, ""
    if isinstance(error, KeyboardInterrupt):
        return 130, INTERRUPTED
    if isinstance(error, CommandError):
        return error.status, str(error)
    if isinstance(error, ModuleNotFoundError):
        if advice := how_to_install(error):
            return 1, advice
    if isinstance(error, MemoryError):
        return 1, f"there is not enough memory ({error})"
    if isinstance(error, OSError):
        if error.filename is not None:
            return 1, f"{error.filename}: {error.strerror}"
        return 1, f"the output cannot be written ({error.strerror or error})"
    if isinstance(error, ValueError):
        return 1, _in_options(str(error))
    return 1, f"unexpected {type(error).__name__}, see --traceback: {error}"


def _in_options(text: str) -> str:
    """Replaces arguments of Python functions by command-line options."""
    text = re.sub(r"`?task='(\w+)'`?", r"--task \1", text)
    either = "`from_logits=True` or `from_logits=False`"
    text = text.replace(either, "--probabilities if they return probabilities")
    return text.replace("`from_logits=False`", "--probabilities")


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    print(_one_line(f"warning: {message}"), file=sys.stderr)


def _one_line(text: str) -> str:
    """One line of printable text. Text from files may contain anything."""
    # Keras colours parts of its messages.
    line = " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())
    is_long = len(line) > LONGEST_LINE
    return printable(line[:LONGEST_LINE]) + "..." * is_long
