"""The `keras-likelihood` command."""

import argparse

from keras_likelihood.commands import audit, demo, detect, recalibrate
from keras_likelihood.version import __version__


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="keras-likelihood",
        description="Your loss should be a likelihood.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (demo, recalibrate, audit, detect):
        command.add_parser(commands)
    options = parser.parse_args(arguments)
    return options.run(options)
