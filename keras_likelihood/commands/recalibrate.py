"""`keras-likelihood recalibrate`: recalibrates a saved model."""

import argparse
import pathlib
from typing import Any, TypeAlias

import numpy as np

from keras_likelihood.backend.files import replacing
from keras_likelihood.commands import outputs
from keras_likelihood.commands.calibration_data import load_task
from keras_likelihood.commands.files import UsageError
from keras_likelihood.commands.tasks import Task

Scores: TypeAlias = dict[str, float]


def run(args: argparse.Namespace) -> None:
    if not args.model and pathlib.Path(args.data).suffix != ".npz":
        raise UsageError(
            "Without a model, --data must be an .npz with `logits`, `probs` or "
            f"`prediction`, and `y`. Received: {args.data}"
        )
    console = args.console
    with console.progress("running the model"):
        task = load_task(args)
    scores = _fit_all(task, args)
    words = gain(task, scores["none"], scores[args.method])
    console.say(words, style="bold")
    if args.output:
        with replacing(args.output) as temporary:
            if task.calibrated_model:
                fitted = task.fit(args.method)
                task.calibrated_model(fitted).save(temporary)
            else:
                arrays: Any = task.arrays(args.method)
                np.savez(temporary, **arrays)
        console.say(f"wrote {args.output} ({args.method})")
    else:
        console.say("Nothing was written. Use --output to write the result.")
    curves = {"before": task.curve("none"), "after": task.curve(args.method)}
    judged_on = "test" if args.test else "folds"
    console.result(gain=words, task=task.name, judged_on=judged_on)
    console.result(scores=scores, method=args.method, reliability=curves)
    console.result(written=[args.output] if args.output else [])
    console.next_step(*_next(args))


def _fit_all(task: Task, args: argparse.Namespace) -> dict[str, Scores]:
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


def score_cells(task: Task, scores: Scores) -> list[str]:
    """The scores of a task as texts for a table."""
    values = [scores[name] for name in task.scores]
    return ["-" if np.isnan(value) else f"{value:.4f}" for value in values]


def gain(task: Task, before: Scores, after: Scores) -> str:
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


def _next(args: argparse.Namespace) -> tuple[str, str]:
    """What to do next, and the command or line of Python that does it."""
    if args.output and args.test:
        load = "keras.models.load_model" if args.model else "numpy.load"
        after = ", after `import keras_likelihood`" * bool(args.model)
        return f"load it in Python{after}:", f"{load}({args.output!r})"
    test = args.test or pathlib.Path(args.data).with_stem("test").name
    words, output = (
        f"evaluate on new data, here {test} (use your own file):",
        None,
    )
    if args.test:
        suffix = ".keras" if args.model else ".npz"
        words, output = (
            "write the result:",
            outputs.unused(f"calibrated{suffix}"),
        )
    method = args.method if args.method != "auto" else None
    options: dict[str, Any] = {"test": test, "method": method, "output": output}
    options["features"] = args.features
    return words, outputs.shell_on_data(args, "recalibrate", **options)
