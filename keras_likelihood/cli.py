"""The `keras-likelihood` command."""

import argparse

from keras_likelihood.version import __version__


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="keras-likelihood",
        description="Your loss should be a likelihood.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_demo(commands)
    options = parser.parse_args(arguments)
    return options.run(options)


def _add_demo(commands):
    parser = commands.add_parser(
        "demo",
        help="train likelihoods beside ordinary losses and draw the difference",
    )
    parser.add_argument(
        "--output",
        default="report",
        help="folder for the figure (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few epochs only, to see that everything runs",
    )
    parser.set_defaults(run=_run_demo)


def _run_demo(options):
    from keras_likelihood import demo

    return demo.run(options.output, quick=options.quick)
