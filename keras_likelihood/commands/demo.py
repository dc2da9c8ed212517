"""`keras-likelihood demo`: likelihoods compared with ordinary losses."""

import argparse
import functools
import os
import pathlib
import sys
import webbrowser
from collections.abc import Callable
from typing import Any

from keras_likelihood.commands import outputs
from keras_likelihood.commands.files import UsageError

TITLE = "Your loss should be a likelihood"


add_parser = outputs.new_command(
    "demo",
    help="compare likelihoods with ordinary losses on one page",
    text="Trains a small network with squared error and with two likelihoods, "
    "a model of a table, and a model that finds wrong labels. Prints the "
    "results and writes them to a page with figures.",
    example="keras-likelihood demo --output report",
    options={
        "--output": "folder for the pages. Pages of an earlier demo are "
        "overwritten (default: %(default)s)",
        "--quick": "train for a few epochs only, to check that everything runs",
    },
    output={"default": "report"},
    quick={"action": "store_true"},
)


def run(args: argparse.Namespace) -> None:
    folder = pathlib.Path(args.output)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"--output must name a folder that exists or can be created "
            f"({error.strerror}). Received: {folder}"
        ) from error
    labels, stories = folder / "demo_audit.html", folder / "demo.html"
    for path in (labels, stories):
        force = args.force or _is_ours(path)
        outputs.check_outputs({"--output": path}, {}, force)
    parts = _tell(args, labels)
    from keras_likelihood.pages.page import write_page

    facts = {"Made by": "keras-likelihood demo"}
    write_page(stories, "report.html", TITLE, facts=facts, parts=parts)
    args.console.facts({"labels": labels, "page": stories})
    args.console.result(labels=labels, page=stories)
    args.console.next_step(
        f"open {stories} in a browser. Then check a model of your own, here "
        "model.keras, on data it has not seen, here data.npz:",
        "keras-likelihood checkup model.keras --data data.npz",
    )
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if display and sys.stdout.isatty():
        webbrowser.open(stories.absolute().as_uri())


def _tell(args: argparse.Namespace, labels: pathlib.Path) -> list[Any]:
    """Runs and prints the examples; returns them as parts of a page."""
    from keras_likelihood.commands import stories

    console, parts = args.console, []
    examples: tuple[Callable[[bool], Any], ...] = (
        stories.curve_story,
        stories.table_story,
        functools.partial(stories.label_story, page=labels),
    )
    console.say("Your loss should be a likelihood.", style="bold")
    with console.progress("examples", 0) as show:
        for number, story in enumerate(examples, start=1):
            part = story(args.quick)
            parts.append(part)
            show(number, len(examples))
            console.say(f"{part.title}.", style="bold")
            console.say(part.summary)
            console.result(**{part.title: part.numbers})
    return parts


def _is_ours(path: pathlib.Path) -> bool:
    if not path.is_file():
        return False
    text = path.read_bytes()[:2000].decode("utf-8", "replace")
    return f"<title>{TITLE}<" in text or "(keras_likelihood demo)<" in text
