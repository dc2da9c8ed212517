"""The `keras-likelihood` command."""

import argparse

from keras_likelihood.commands import audit, demo, detect, recalibrate
from keras_likelihood.version import __version__

EXTRAS = {
    "demo": "demo",
    "recalibrate": "recalibration",
    "detect": "outliers",
}
"""Extras that bring what a command needs."""


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
    try:
        return options.run(options)
    except ValueError as error:
        raise SystemExit(f"{options.command}: {error}") from error
    except ModuleNotFoundError as error:
        if options.command not in EXTRAS:
            raise
        raise SystemExit(
            f"{options.command}: needs {error.name}, which comes with "
            f'`pip install "keras-likelihood[{EXTRAS[options.command]}]"`'
        ) from error
