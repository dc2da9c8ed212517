"""`keras-likelihood demo`: likelihoods beside ordinary losses."""

import os
import pathlib
import sys
import webbrowser

from keras_likelihood.commands.command_error import UsageError
from keras_likelihood.commands.options import new_command
from keras_likelihood.commands.outputs import check_outputs

FIGURE = "demo.png"
PAGE = "demo_audit.html"
STORIES = "demo.html"
TITLE = "Your loss should be a likelihood"


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "demo",
        help="train likelihoods beside ordinary losses, draw the difference, "
        "and find wrong labels",
        text=(
            "Trains one small network with squared error and with two "
            "likelihoods, and another one that finds wrong labels. Prints "
            "and draws the results."
        ),
        example="keras-likelihood demo --output report",
    )
    parser.add_argument(
        "--output",
        default="report",
        help="folder for the figure and the pages; those of a former demo in "
        "it are replaced (default: %(default)s)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few epochs only, to see that everything runs",
    )
    parser.set_defaults(run=run)
    return parser


def run(args) -> int:
    """Runs the command and returns the exit status."""
    folder = pathlib.Path(args.output)
    _make_folder(folder)
    outputs = {name: folder / name for name in (FIGURE, PAGE, STORIES)}
    for path in outputs.values():
        check_outputs({"--output": path}, {}, args.force or _is_ours(path))
    from keras_likelihood import demo
    from keras_likelihood.commands.demo_page import write_stories

    figure, page, stories = outputs.values()
    found = demo.run(figure, page, quick=args.quick, console=args.console)
    write_stories(stories, TITLE, figure, page, found)
    files = {"figure": figure, "labels": page, "page": stories}
    args.console.facts(files)
    args.console.result(**files)
    args.console.next_step(
        f"open {stories} in a browser. Then look at a model of your own:",
        "keras-likelihood checkup model.keras --data data.npz",
    )
    _open(stories)
    return 0


def _open(page):
    """Opens the page if there is a display and a terminal."""
    display = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if display and sys.stdout.isatty():
        webbrowser.open(page.absolute().as_uri())


def _make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--output must name a folder that exists or can be made "
            f"({error.strerror}). Received: {folder}"
        ) from error


def _is_ours(path):
    if not path.is_file():
        return False
    from keras_likelihood.demo.figure import SOFTWARE
    from keras_likelihood.demo.page_title import TITLE as AUDIT  # noqa: N812

    mark = {
        FIGURE: SOFTWARE,
        PAGE: f"<title>{AUDIT}</title>",
        STORIES: f"<title>{TITLE}</title>",
    }[path.name]
    with open(path, "rb") as file:
        return mark.encode() in file.read(2000)
