"""`keras-likelihood demo`: likelihoods beside ordinary losses."""

import pathlib

from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.commands.options import add_force
from keras_likelihood.commands.outputs import check_outputs

FIGURE = "demo.png"


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = subparsers.add_parser(
        "demo",
        help="train likelihoods beside ordinary losses and draw the difference",
    )
    parser.add_argument(
        "--output",
        default="report",
        help="folder for the figure; the figure of a former demo in it is "
        "replaced (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few epochs only, to see that everything runs",
    )
    add_force(parser)
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command; returns the exit status."""
    folder = pathlib.Path(args.output)
    _make_folder(folder)
    figure = folder / FIGURE
    check_outputs({"--output": figure}, {}, args.force or _is_ours(figure))
    from keras_likelihood import demo

    return demo.run(figure, quick=args.quick)


def _make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(
            f"--output must name a folder that exists or can be made "
            f"({error.strerror}). Received: {folder}"
        ) from error


def _is_ours(figure):
    if not figure.is_file():
        return False
    from keras_likelihood.demo.figure import SOFTWARE

    with open(figure, "rb") as file:
        return SOFTWARE.encode() in file.read(1000)
