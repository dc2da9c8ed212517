"""The `keras-likelihood` command."""

import argparse
import logging
import os
import re
import sys
import warnings

from keras_likelihood.backend.extras import how_to_install
from keras_likelihood.commands import (
    audit,
    checkup,
    demo,
    detect,
    recalibrate,
)
from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.commands.console import Console
from keras_likelihood.version import __version__

COMMANDS = {
    "checkup": checkup,
    "recalibrate": recalibrate,
    "audit": audit,
    "detect": detect,
    "demo": demo,
}
EXAMPLES = """\
examples:
  keras-likelihood checkup model.keras --data data.npz
  keras-likelihood recalibrate model.keras --data val.npz --output better.keras
  keras-likelihood audit --data train.npz
  keras-likelihood detect table.csv
  keras-likelihood demo

exit status:
  0    everything is done
  1    the data or the model cannot be used, or something else failed
  2    the command line is wrong: an option, a missing file, an output
       that exists or cannot be written
  130  interrupted by Ctrl-C
"""
LONGEST_LINE = 600


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: list[str] | None = None) -> int:
    """Runs one command.

    Returns:
        The exit status. It is 0 if all went well, 1 if the data cannot be used
        or something else failed, 2 if the command line is wrong and 130 after
        Ctrl-C.
    """
    options = _parser().parse_args(arguments)
    _silence_backends()
    options.console = Console(
        options.command, as_json=options.json, quiet=options.quiet
    )
    try:
        return _run(options)
    except BrokenPipeError:
        # The program that read the output, such as `head`, has ended.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(options):
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            status = options.run(options)
        except BrokenPipeError:
            raise
        except (Exception, KeyboardInterrupt) as error:
            if options.traceback:
                raise
            status, text = describe(error)
            text = _one_line(f"{options.command}: {text}")
            print(text, file=sys.stderr)
            options.console.result(error=text, status=status)
    options.console.finish()
    sys.stdout.flush()
    return status


def _silence_backends():
    """Hides the log lines of the backends: users look for errors on stderr."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for name in ("tensorflow", "jax", "absl"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _parser():
    parser = _Parser(
        prog="keras-likelihood",
        description="Your loss should be a likelihood.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar=f"{{{','.join(COMMANDS)}}}"
    )
    for command in COMMANDS.values():
        command.add_parser(commands)
    return parser


def describe(error: BaseException) -> tuple[int, str]:
    """The exit status and the line that an error ends a command with."""
    if isinstance(error, KeyboardInterrupt):
        return 130, "interrupted; no unfinished file is left"
    if isinstance(error, ModuleNotFoundError):
        if advice := how_to_install(error):
            return 1, advice
    if isinstance(error, MemoryError):
        return 1, f"there is too little memory for this ({error})"
    if isinstance(error, OSError) and error.filename is not None:
        return 1, f"{error.filename}: {error.strerror}"
    if isinstance(error, CommandError):
        return error.status, str(error)
    if isinstance(error, ValueError | OSError):
        return 1, str(error)
    return 1, (f"unexpected {type(error).__name__}, see --traceback: {error}")


def _show_warning(message, *_, **__):
    print(_one_line(f"warning: {message}"), file=sys.stderr)


def _one_line(text):
    """One line of printable text. Text from files may contain anything."""
    # Keras colours a part of its messages.
    line = " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())
    line = "".join(c if c.isprintable() else "?" for c in line)
    if len(line) > LONGEST_LINE:
        line = f"{line[:LONGEST_LINE]}..."
    return line
