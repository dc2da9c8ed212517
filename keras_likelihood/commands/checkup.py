"""`keras-likelihood checkup`: one page about a model and its data."""

import pathlib

import numpy as np

from keras_likelihood.commands.calibration_data import task_of_model
from keras_likelihood.commands.files import (
    CommandError,
    load_model,
    running,
)
from keras_likelihood.commands.outputs import (
    add_data_options,
    add_task,
    check_outputs,
    new_command,
)
from keras_likelihood.commands.table_models import (
    read_alike,
    read_for_model,
)

FEWEST = 20
"""Smallest number of examples."""


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "checkup",
        help="write one page that says what is wrong with a model and its data",
        text=(
            "Writes one self-contained HTML page that says whether a model "
            "is calibrated, which labels are doubtful, which inputs are "
            "strange, where the model is uncertain and whether training went "
            "wrong, each with the command to run next. The model must be a "
            "classifier, or a regressor that predicts one number."
        ),
        example=(
            "keras-likelihood checkup model.keras --data val.npz "
            "--test test.npz"
        ),
    )
    parser.add_argument("model", help="a .keras file, loaded in safe mode")
    parser.add_argument(
        "--data",
        required=True,
        help="an .npz with x and y, or a .csv. Use data that the model was not "
        "trained on",
    )
    parser.add_argument(
        "--test",
        help="data to judge the calibration on (default: a random half of "
        "--data)",
    )
    parser.add_argument(
        "--output",
        default="checkup.html",
        help="the page (default: %(default)s)",
    )
    add_task(parser)
    add_data_options(parser)
    parser.set_defaults(features=None)
    return parser


def run(args) -> None:
    """Runs the command."""
    check_outputs(
        {"--output": args.output},
        {"model": args.model, "--data": args.data, "--test": args.test},
        args.force,
    )
    model = load_model(args.model)
    data = read_for_model(model, args.data, args)
    test = read_alike(model, args.test, args, data) if args.test else None
    names = {
        "labels": data.get("labels"),
        "columns": data.get("columns", data.get("names")),
    }
    data, test = _examples(args.data, data), _examples(args.test, test)
    from keras_likelihood.pages.page import write_page

    parts, task = _examine(args, model, data, test, names)
    facts = {
        "Model": args.model,
        "Task": task.name,
        "Data": args.data,
        "Calibration judged on": args.test or "a random half of the data",
    }
    title = f"Checkup of {pathlib.Path(args.model).name}"
    write_page(args.output, "report.html", title, facts=facts, parts=parts)
    _print(args, parts, task)


def _examples(path, data):
    """The inputs and labels of a file, or `None`."""
    if data is None:
        return None
    if len(data["x"]) != len(data["y"]) or len(data["y"]) < FEWEST:
        raise CommandError(
            f"{path}: a checkup needs at least {FEWEST} examples, and a label "
            f"or target for each. Received: {len(data['x'])} inputs and "
            f"{len(data['y'])} labels"
        )
    return {name: data[name] for name in ("x", "y")}


def _examine(args, model, data, test, names):
    """All parts of the page, and the task of the model."""
    from keras_likelihood.commands import checkup_parts as parts

    val, test, rows, judged = _split(data, test)
    with args.console.progress("checking up") as on_progress:
        task = task_of_model(model, val, test, args)
        on_progress(15, 100)
        calibration, fitted = parts.check_calibration(task, args)
        on_progress(55, 100)
        with running(args.model, args.data):
            labels = parts.check_labels(
                model, data, names["labels"], task, args
            )
        on_progress(65, 100)

        def on_round(round_, rounds):
            on_progress(65 + 30 * round_ // rounds, 100)

        inputs = parts.check_inputs(
            data["x"], rows, names["columns"], task, args, on_round
        )
        x = data["x"] if args.test is None else test["x"]
        unsure = parts.check_uncertainty(
            task, fitted, x, judged, names["labels"], args
        )
        on_progress(97, 100)
        training = parts.check_training(model, data, args)
        on_progress(100, 100)
    return [calibration, labels, inputs, unsure, training], task


def _split(data, test):
    """Data to fit to and to judge on, with the numbers of their rows."""
    rows = np.arange(len(data["y"]))
    if test is not None:
        return data, test, rows, np.arange(len(test["y"]))
    order = np.random.default_rng(0).permutation(rows)
    half = len(order) // 2
    rows, judged = np.sort(order[:half]), np.sort(order[half:])
    val, test = (
        {name: values[chosen] for name, values in data.items()}
        for chosen in (rows, judged)
    )
    return val, test, rows, judged


def _print(args, parts, task):
    from keras_likelihood.pages.page import VERDICTS

    console = args.console
    console.table(
        ["part", "verdict", "what was found"],
        [[part.title, VERDICTS[part.verdict], part.summary] for part in parts],
    )
    console.say(f"page: {args.output}")
    console.result(
        task=task.name,
        page=args.output,
        parts=[part.as_dict() for part in parts],
    )
    urgent = [p for p in parts if p.verdict in ("bad", "look") and p.command]
    urgent.sort(key=lambda part: part.verdict != "bad")
    first = f" First {urgent[0].advice}:" if urgent else ""
    console.next_step(
        f"open {args.output} in a browser.{first}",
        urgent[0].command if urgent else None,
    )
