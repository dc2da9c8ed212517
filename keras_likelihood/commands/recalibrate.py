"""`keras-likelihood recalibrate`: recalibrates a saved model."""

import argparse
import pathlib
from typing import Any, TypeAlias

import numpy as np

from keras_likelihood.backend.files import replacing
from keras_likelihood.commands import outputs
from keras_likelihood.commands.files import UsageError

Scores: TypeAlias = dict[str, float]
METHODS = ["global", "linear", "features", "deep", "vector", "matrix"]


add_parser = outputs.new_command(
    "recalibrate",
    help="make the probabilities or intervals of a model reliable",
    text="Fits the recalibration methods that keep the predicted classes, or "
    "the one given by --method, to validation data. Prints the scores of each "
    "one on held-out rows, and writes the calibrated model, fitted to all "
    "rows. The model must be a classifier, or a regressor that predicts one "
    "number, with or without a scale.",
    example="keras-likelihood recalibrate model.keras --data val.npz "
    "\\\n      --test test.npz --output calibrated.keras",
    options={
        "model": "a .keras file. Leave it out if the data are logits",
        "--data": "validation data: .npz with arrays x and y, or a .csv with a "
        "target column. Without a model: .npz with logits, or probs, and y "
        "(optionally features), or prediction and y (optionally scale and "
        "features)",
        "--test": "data to evaluate on, in the same form",
        "--method": "auto (default) chooses by the cross-validated NLL",
        "--change-classes": "allow methods that may change the predicted "
        "classes, which often lowers the NLL further",
        "--output": "where to write the result: a .keras file; without a model "
        "an .npz of the outputs (default: nothing is written)",
        "--features": "name of the layer whose output is used as features",
        **outputs.DATA_OPTIONS,
        **outputs.TASK_OPTION,
    },
    model={"nargs": "?"},
    method={"default": "auto", "choices": ["auto", *METHODS]},
    **{"change-classes": {"action": "store_true"}},
)


def run(args: argparse.Namespace) -> None:
    allowed = ".keras" if args.model else ".npz"
    # The suffix must match the content. No suffix is added.
    outputs.check_files(args, "output", suffix=allowed)
    if not args.model and pathlib.Path(args.data).suffix != ".npz":
        raise UsageError(
            "Without a model, --data must be an .npz with `logits`, `probs` or "
            f"`prediction`, and `y`. Received: {args.data}"
        )
    from keras_likelihood.commands.calibration_data import load_task

    console = args.console
    with console.progress("running the model"):
        task = load_task(args)
    scores = _fit_all(task, args)
    words = gain(task, scores["none"], scores[args.method])
    console.say(words, style="bold")
    curves = {"before": task.curve("none"), "after": task.curve(args.method)}
    if args.output:
        with replacing(args.output) as temporary:
            if args.model:
                make: Any = task.calibrated_model
                make(task.fit(args.method)).save(temporary)
            else:
                task.write(args.method, temporary)
        console.say(f"wrote {args.output} ({args.method})")
    else:
        console.say("Nothing was written. Use --output to write the result.")
    judged_on = "test" if args.test else "folds"
    console.result(gain=words, task=task.name, judged_on=judged_on)
    console.result(scores=scores, method=args.method, reliability=curves)
    console.result(written=[args.output] if args.output else [])
    console.next_step(*_next(args, allowed))


def _fit_all(task: Any, args: argparse.Namespace) -> dict[str, Scores]:
    """Fits the methods, and prints their scores in a table."""
    is_auto, console = args.method == "auto", args.console
    names = list(task.methods()) if is_auto else [args.method]
    scores = {"none": {**task.judge("none"), "seconds": 0.0}}
    with console.progress("fitting") as on_method:
        for number, name in enumerate(names, start=1):
            seconds = task.fit(name).report_["seconds"]
            scores[name] = {**task.judge(name), "seconds": seconds}
            on_method(number, len(names))
    rows = [
        [name, *score_cells(task, one), f"{one['seconds']:.2f}"]
        for name, one in scores.items()
    ]
    best = int(np.nanargmin([one["NLL"] for one in scores.values()]))
    console.table(["method", *task.scores, "seconds"], rows, best=best)
    console.say(f"(scores on {task.rows})")
    if is_auto:
        chosen = task.chosen(task.fit("auto"))
        console.result(auto=chosen)
        console.say(f"auto chose {chosen} by cross-validation")
    return scores


def score_cells(task: Any, scores: Scores) -> list[str]:
    """The scores of a task as texts for a table."""
    values = [scores[name] for name in task.scores]
    return ["-" if np.isnan(value) else f"{value:.4f}" for value in values]


def gain(task: Any, before: Scores, after: Scores) -> str:
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


def _next(args: argparse.Namespace, suffix: str) -> tuple[str, str]:
    """What to do next, and the command or line of Python that does it."""
    test = args.test or pathlib.Path(args.data).with_stem("test").name
    output = None
    if args.test and not args.output:
        output = outputs.unused(f"calibrated{suffix}")
    method = args.method if args.method != "auto" else None
    options = {"test": test, "method": method, "features": args.features}
    options["output"] = output
    command = outputs.shell_on_data(args, "recalibrate", **options)
    if not args.test:
        words = f"evaluate on new data, here {test} (use your own file):"
        return words, command
    if not args.output:
        return "write the result:", command
    if args.model:
        words = "load it in Python, after `import keras_likelihood`:"
        return words, f"keras.models.load_model({args.output!r})"
    return "load it in Python:", f"numpy.load({args.output!r})"
