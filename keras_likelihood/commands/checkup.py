"""`keras-likelihood checkup`: one page about a model and its data."""

import pathlib
import shlex

import numpy as np

from keras_likelihood.commands.calibration_data import task_of_model
from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.commands.data_files import read_arrays
from keras_likelihood.commands.model_files import load_model, running
from keras_likelihood.commands.options import add_task, new_command
from keras_likelihood.commands.outputs import check_outputs

FEWEST = 20
"""Smallest number of examples."""
_SHARES = {
    "calibration": 55,
    "labels": 65,
    "inputs": 95,
    "uncertainty": 97,
    "diagnosis": 100,
}
"""How much of the work is done after each part, in percent."""


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "checkup",
        help="write one page that says what is wrong with a model and its data",
        text=(
            "Writes one self-contained HTML page that says whether a model "
            "is calibrated, which labels are doubtful, which inputs are "
            "strange, where the model is uncertain and what a diagnosis "
            "found, each with the command that helps. Takes classifiers, and "
            "regressors that predict one number."
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
        help="an .npz with x and y. Data that the model was not trained on "
        "say more about its calibration",
    )
    parser.add_argument(
        "--test",
        help="an .npz to judge the calibration on; a random half of the data "
        "if unset",
    )
    parser.add_argument(
        "--output",
        default="checkup.html",
        help="the page (default: %(default)s)",
    )
    add_task(parser)
    parser.add_argument(
        "--probabilities",
        action="store_true",
        help="the model puts out probabilities, not logits",
    )
    parser.set_defaults(run=run, features=None)
    return parser


def run(args) -> int:
    """Runs the command and returns the exit status."""
    check_outputs(
        {"--output": args.output},
        {"model": args.model, "--data": args.data, "--test": args.test},
        args.force,
    )
    data = _load(args.data)
    test = _load(args.test) if args.test else None
    model = load_model(args.model)
    parts, task = _examine(args, model, data, test)
    from keras_likelihood.commands.checkup_page import write_page

    name = pathlib.Path(args.model).name
    write_page(args.output, f"Checkup of {name}", parts, _facts(args, task))
    _print(args, parts, task)
    return 0


def _load(path):
    data = read_arrays(path, ("x", "y"))
    if len(data["x"]) != len(data["y"]) or len(data["y"]) < FEWEST:
        raise CommandError(
            f"{path}: a checkup needs at least {FEWEST} examples, and a label "
            f"or target for each. Received: {len(data['x'])} inputs and "
            f"{len(data['y'])} labels"
        )
    return data


def _examine(args, model, data, test):
    """All parts of the page, and the task of the model."""
    from keras_likelihood.commands import checkup_parts as parts
    from keras_likelihood.commands.checkup_uncertainty import (
        check_uncertainty,
    )

    val, test, rows, judged = _split(data, test)
    call = Call(args)
    with args.console.progress("checking up") as on_progress:
        task = task_of_model(model, val, test, args)
        on_progress(15, 100)

        def done(name):
            on_progress(_SHARES[name], 100)

        found = [parts.check_calibration(task, call)]
        done("calibration")
        recalibrator = found[0].recalibrator
        with running(args.model, args.data):
            found.append(parts.check_labels(model, data, task, call))
        done("labels")

        def on_round(round_, rounds):
            first, last = _SHARES["labels"], _SHARES["inputs"]
            on_progress(first + (last - first) * round_ // rounds, 100)

        found.append(parts.check_inputs(data["x"], rows, task, call, on_round))
        done("inputs")
        found.append(check_uncertainty(task, recalibrator, judged, call))
        done("uncertainty")
        found.append(parts.check_training(model, data, call))
        done("diagnosis")
    return found, task


def _split(data, test):
    """Data to fit to and to judge on, with the numbers of their rows."""
    rows = np.arange(len(data["y"]))
    if test is not None:
        return data, test, rows, np.arange(len(test["y"]))
    order = np.random.default_rng(0).permutation(rows)
    half = len(order) // 2
    rows, judged = np.sort(order[:half]), np.sort(order[half:])
    return _take(data, rows), _take(data, judged), rows, judged


def _take(data, rows):
    return {name: values[rows] for name, values in data.items()}


class Call:
    """The files of a checkup, for the commands that it recommends.

    Args:
        args: options of the command.
    """

    def __init__(self, args):
        self.model = shlex.quote(args.model)
        self.data = shlex.quote(args.data)
        self.test = args.test and shlex.quote(args.test)
        self.judged = args.test or f"{args.data}, a half that was held out"
        self.from_logits = False if args.probabilities else None


def _facts(args, task):
    return {
        "Model": args.model,
        "Task": task.name,
        "Data": args.data,
        "Calibration judged on": args.test or "a random half of the data",
    }


def _print(args, parts, task):
    console = args.console
    console.table(
        ["part", "verdict", "what was found"],
        [[part.title, part.verdict, part.summary] for part in parts],
    )
    console.say(f"page: {args.output}")
    console.result(
        task=task.name,
        page=args.output,
        parts=[part.as_dict() for part in parts],
    )
    urgent = [p for p in parts if p.verdict in ("bad", "look") and p.command]
    if urgent:
        urgent.sort(key=lambda part: part.verdict != "bad")
        console.next_step(
            f"open {args.output} in a browser. First {urgent[0].advice}:",
            urgent[0].command,
        )
    else:
        console.next_step(f"open {args.output} in a browser.")
