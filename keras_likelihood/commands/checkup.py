"""`keras-likelihood checkup`: one page about a model and its data."""

import argparse
import pathlib
from typing import Any

import numpy as np

from keras_likelihood.commands import files, outputs

FEWEST = 20
"""Smallest number of examples."""


add_parser = outputs.new_command(
    "checkup",
    help="write a page about the problems of a model and its data",
    text="Checks whether a model is calibrated, which labels are doubtful, "
    "which inputs are strange and whether training "
    "went wrong. Writes one self-contained HTML page with the results "
    "and the commands to run next. The model must be a classifier, or a "
    "regressor that predicts one number.",
    example="keras-likelihood checkup model.keras --data val.npz --test "
    "test.npz",
    options={
        "model": "a .keras file, loaded in safe mode",
        "--data": "an .npz with x and y, or a .csv. Use data that the model "
        "was not trained on",
        "--test": "data to evaluate the calibration on (default: a random half "
        "of --data)",
        "--output": "the page (default: %(default)s)",
        **outputs.TASK_OPTION,
        **outputs.DATA_OPTIONS,
    },
    output={"default": "checkup.html"},
)


def run(args: argparse.Namespace) -> None:
    outputs.check_files(args, "output")
    model, data, test = files.read_model_and_data(args)
    for path, found in ((args.data, data), (args.test, test or data)):
        inputs, labels = len(found["x"]), len(found["y"])
        if inputs != labels or labels < FEWEST:
            raise files.CommandError(
                f"{path}: a checkup needs at least {FEWEST} examples, and a "
                f"label or target for each. Received: {inputs} inputs and "
                f"{labels} labels"
            )
    from keras_likelihood.pages.page import VERDICTS, write_page

    parts, task = _examine(args, model, data, test)
    facts = {"Model": args.model, "Task": task.name, "Data": args.data}
    facts["Calibration judged on"] = args.test or "a random half of the data"
    title = f"Checkup of {pathlib.Path(args.model).name}"
    write_page(args.output, "report.html", title, facts=facts, parts=parts)
    console = args.console
    console.table(
        ["part", "verdict", "what was found"],
        [[part.title, VERDICTS[part.verdict], part.summary] for part in parts],
    )
    console.say(f"page: {args.output}")
    names = ("title", "verdict", "summary", "command", "numbers")
    results = [{name: getattr(part, name) for name in names} for part in parts]
    console.result(task=task.name, page=args.output, parts=results)
    urgent = [p for p in parts if p.verdict in ("bad", "look") and p.command]
    first = min(urgent, key=lambda part: part.verdict != "bad", default=None)
    console.next_step(
        f"open {args.output} in a browser."
        + (f" First {first.advice}:" if first else ""),
        first and first.command,
    )


def _examine(
    args: argparse.Namespace,
    model: Any,
    data: dict[str, Any],
    test: dict[str, Any] | None,
) -> tuple[list[Any], Any]:
    """All parts of the page, and the task of the model."""
    from keras_likelihood.commands import checkup_parts as parts
    from keras_likelihood.commands.calibration_data import task_of_model

    x, labels = data["x"], data.get("labels")
    columns = data.get("columns", data.get("names"))
    args.features = None
    fitted_to, judged_on, rows = data, test, np.arange(len(x))
    shown = x
    if test is None:
        halves = np.array_split(np.random.default_rng(0).permutation(rows), 2)
        rows, judged = map(np.sort, halves)
        fitted_to, judged_on = (
            {name: data[name][half] for name in ("x", "y")}
            for half in (rows, judged)
        )
    else:
        judged, shown = np.arange(len(test["y"])), test["x"]
    with args.console.progress("checking up") as on_progress:
        task = task_of_model(model, fitted_to, judged_on, args)
        on_progress(15, 100)
        calibration = parts.check_calibration(task, args)
        on_progress(55, 100)
        with files.running(args.model, args.data):
            doubtful = parts.check_labels(
                model, data, labels, task, args, shown[judged]
            )
        on_progress(65, 100)

        def on_round(round_: float, rounds: float) -> None:
            on_progress(65 + 30 * round_ // rounds, 100)

        inputs = parts.check_inputs(x, rows, columns, task, args, on_round)
        training = parts.check_training(model, data)
        on_progress(100, 100)
    return [calibration, doubtful, inputs, training], task
