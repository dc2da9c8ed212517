"""`keras-likelihood recalibrate`: recalibrates a saved model."""

import os
import pathlib

import numpy as np

from keras_likelihood.backend.whole_files import replacing
from keras_likelihood.commands.calibration_data import load_task
from keras_likelihood.commands.diagram import print_diagram
from keras_likelihood.commands.files import UsageError
from keras_likelihood.commands.outputs import (
    add_data_options,
    add_task,
    check_outputs,
    new_command,
    shell,
    unused,
)
from keras_likelihood.commands.tasks import ClassifierTask, RegressorTask

METHODS = list(dict.fromkeys([*ClassifierTask.METHODS, *RegressorTask.METHODS]))


def add_parser(subparsers):
    """Adds the command to an argparse subparsers object."""
    parser = new_command(
        subparsers,
        "recalibrate",
        help="make the probabilities or intervals of a model reliable",
        text=(
            "Fits all recalibration methods, or the one given by --method, to "
            "validation data. Prints how good each one is and a reliability "
            "diagram, and writes the calibrated model. The model must be a "
            "classifier, or a regressor that predicts one number, with or "
            "without a scale."
        ),
        example=(
            "keras-likelihood recalibrate model.keras --data val.npz "
            "\\\n      --test test.npz --output calibrated.keras"
        ),
    )
    parser.add_argument(
        "model",
        nargs="?",
        help="a .keras file. Leave it out if the data are logits",
    )
    parser.add_argument(
        "--data",
        required=True,
        help="validation data: .npz with arrays x and y, or a .csv with a "
        "target column. Without a model: .npz with logits and y (optionally "
        "features), or prediction and y (optionally scale and features); a "
        ".csv of logits with the label last; or a folder with logits.npy, of "
        "which at most 256 MiB are used, and y.npy",
    )
    parser.add_argument("--test", help="data to evaluate on, in the same form")
    parser.add_argument(
        "--method",
        default="auto",
        choices=["auto", *METHODS],
        help="auto (default) chooses by the cross-validated NLL",
    )
    parser.add_argument(
        "--output",
        help="where to write the result: a .keras file; without a model an "
        ".npz of the outputs, or an .npy if the data are a folder (default: "
        "nothing is written)",
    )
    parser.add_argument(
        "--features", help="name of the layer whose output is used as features"
    )
    add_data_options(parser)
    add_task(parser)
    return parser


def run(args) -> None:
    """Runs the command."""
    _check_suffix(args)
    check_outputs(
        {"--output": args.output},
        {"model": args.model, "--data": args.data, "--test": args.test},
        args.force,
    )
    console = args.console
    with console.progress("running the model"):
        task = load_task(args)
    fitted, scores = _fit_all(task, args)
    chosen = fitted[args.method]
    words = gain(task, scores["none"], scores[args.method])
    console.say(words, style="bold")
    curves = {"before": task.curve(None), "after": task.curve(chosen)}
    print_diagram(console, task, **curves)
    _write(args, task, chosen)
    console.result(
        gain=words,
        task=task.name,
        judged_on="test" if args.test else "data",
        scores=scores,
        method=args.method,
        reliability=curves,
        written=[args.output] if args.output else [],
    )
    _say_next(args)


def _check_suffix(args):
    """A file has the suffix of what it holds; none is added."""
    allowed = ".keras" if args.model else ".npz"
    if not args.model and os.path.isdir(args.test or args.data):
        allowed = ".npy"
    if args.output and pathlib.Path(args.output).suffix != allowed:
        what = "a model" if args.model else "probabilities"
        raise UsageError(
            f"--output must end in {allowed} for {what}. "
            f"Received: {args.output}"
        )


def _fit_all(task, args):
    """Fits the methods, and prints their scores in a table."""
    names = [args.method]
    if args.method == "auto" and "auto" in task.methods():
        names = list(task.methods())
    fitted = {"none": None}
    scores = {"none": {**task.judge(None), "seconds": 0.0}}
    with args.console.progress("fitting") as on_method:
        for number, name in enumerate(names, start=1):
            one = fitted[name] = task.fit(name)
            seconds = one.report_["seconds"]
            scores[name] = {**task.judge(one), "seconds": seconds}
            on_method(number, len(names))
    rows = [
        [name, *score_cells(task, one), f"{one['seconds']:.2f}"]
        for name, one in scores.items()
    ]
    best = int(np.nanargmin([one["NLL"] for one in scores.values()]))
    console = args.console
    console.table(["method", *task.scores, "seconds"], rows, best=best)
    console.say(
        "(on the test data)"
        if args.test
        else "(on the data that they were fitted to; use --test for other data)"
    )
    if args.method == "auto":
        chosen = task.chosen(fitted["auto"])
        console.result(auto=chosen)
        console.say(f"auto chose {chosen} by cross-validation")
    return fitted, scores


def score_cells(task, scores: dict) -> list[str]:
    """The scores of a task as texts for a table."""
    values = [scores[name] for name in task.scores]
    return ["-" if np.isnan(value) else f"{value:.4f}" for value in values]


def gain(task, before: dict, after: dict) -> str:
    """How much the model improved, in words."""
    if np.isnan(before["NLL"]):
        return (
            "The model predicted no intervals. Now its 90 % intervals contain "
            f"{after['in 90 % band']:.1%} of the targets."
        )
    change = after["NLL"] - before["NLL"]
    gap, new = before[task.gap], after[task.gap]
    if change > -0.001 and new > 0.8 * gap:
        return (
            f"Recalibration made almost no difference: the NLL was "
            f"{before['NLL']:.4f} and is {after['NLL']:.4f}."
        )
    times = gap / max(new, 1e-6)
    factor = f", {times:.1f} times smaller" if times >= 1.1 else ""
    verb = "fell" if change < 0 else "rose"
    return (
        f"The NLL {verb} from {before['NLL']:.4f} to {after['NLL']:.4f}. The "
        f"calibration error ({task.gap}) went from {gap:.4f} to {new:.4f}"
        f"{factor}."
    )


def _write(args, task, chosen):
    if not args.output:
        args.console.say(
            "Nothing was written. Use --output to write the result."
        )
        return
    with replacing(args.output) as temporary:
        if args.model:
            task.calibrated_model(chosen).save(temporary)
        else:
            task.write(chosen, temporary)
    args.console.say(f"wrote {args.output} ({args.method})")


def _say_next(args):
    console = args.console
    test = args.test or pathlib.Path(args.data).with_stem("test").name
    command = shell(
        "recalibrate",
        args.model,
        data=args.data,
        test=test,
        method=args.method if args.method != "auto" else None,
        features=args.features,
        target=args.target,
        task=args.task,
        probabilities=args.probabilities,
    )
    if not args.test:
        console.next_step(
            f"evaluate on new data, here {test} (replace it by your file):",
            command,
        )
    elif not args.output:
        suffix = "npy" if os.path.isdir(args.test) else "npz"
        output = unused(f"calibrated.{'keras' if args.model else suffix}")
        console.next_step("write the result:", f"{command} --output {output}")
    elif args.model:
        console.next_step(
            "load it in Python, after `import keras_likelihood`:",
            f"keras.models.load_model({args.output!r})",
        )
    else:
        console.next_step("load it in Python:", f"numpy.load({args.output!r})")
