"""`keras-likelihood recalibrate`: recalibrates a saved model."""

import argparse
import pathlib
from typing import Any, TypeAlias

import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.files import replacing
from keras_likelihood.backend.types import Array
from keras_likelihood.commands import files
from keras_likelihood.commands.tasks import (
    ClassifierTask,
    Data,
    RegressorTask,
    Task,
)
from keras_likelihood.reading import read_output
from keras_likelihood.reading.graphs import ClassifierGraph, RegressorGraph
from keras_likelihood.reading.targets import location_and_scale

Scores: TypeAlias = dict[str, float]


def run(args: argparse.Namespace) -> None:
    if not args.model and pathlib.Path(args.data).suffix != ".npz":
        raise files.UsageError(
            "Without a model, --data must be an .npz with `logits`, `probs` or "
            f"`prediction`, and `y`. Received: {args.data}"
        )
    console = args.console
    with console.progress("running the model"):
        task = load_task(args)
    scores = _fit_all(task, args)
    words = gain(task, scores["none"], scores[args.method])
    console.say(words, style="bold")
    layers: list[Any] = []
    if args.output:
        with replacing(args.output) as temporary:
            if task.calibrated_model:
                model = task.calibrated_model(task.fit(args.method))
                model.save(temporary)
                layers = [model, *model.operations]
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
    console.next_step(*_next(args, layers))


def load_task(args: argparse.Namespace) -> Task:
    """Reads the data for fitting and for evaluation."""
    options = {"changes_classes": args.change_classes}
    if args.model:
        read = files.read_model_and_data(args)
        return task_of_model(*read, args, features=args.features, **options)
    val = _load_outputs(args.data)
    test = _load_outputs(args.test) if args.test else None
    if test:
        needed, received = (
            {name: np.shape(a)[1:] for name, a in data.items() if name != "y"}
            for data in (val, test)
        )
        if needed != received:
            raise files.CommandError(
                f"{args.test} must have the arrays of {args.data}, with shapes "
                f"{needed}. Received: {received}"
            )
    if "logits" not in val:
        return RegressorTask(_as_regressor(val), test and _as_regressor(test))
    for data in filter(None, (val, test)):
        data |= {"own": data["logits"], "features": data.get("features")}
    from_logits = not (args.probabilities or "are_probabilities" in val)
    return ClassifierTask(val, test, from_logits=from_logits, **options)


def task_of_model(
    model: Any,
    val: Data,
    test: Data | None,
    args: argparse.Namespace,
    *,
    features: str | None = None,
    **options: Any,
) -> Task:
    """Runs a model on its data and detects the task."""
    of_graph: Any = {"features": features, "with_features": "optional"}
    kind: Any = RegressorGraph
    with files.running(args.model, args.data):
        if not _is_regressor(model, val["x"], val["y"], args.task):
            of_graph["from_logits"] = False if args.probabilities else None
            kind = ClassifierGraph
        graph = kind(model, val["x"], **of_graph)
        outputs = _outputs(graph, val)
    with files.running(args.model, args.test or args.data):
        of_test = test and _outputs(graph, test)
    if isinstance(graph, ClassifierGraph):

        def extended(recalibrator: Any) -> Any:
            return graph.calibrated_model(recalibrator.maps)

        return ClassifierTask(outputs, of_test, extended, **options)

    def refitted(recalibrator: Any) -> Any:
        recalibrator.fit(model, val["x"], val["y"], features=features)
        return recalibrator.model

    return RegressorTask(outputs, of_test, refitted, **options)


def _is_regressor(model: Any, x: Array, y: Array, task: str | None) -> bool:
    """Whether a model predicts numbers, judged by a few examples."""
    if task:
        return task == "regression"
    reading = read_output(model, x[:32])
    try:
        reading = reading.with_likelihood(y)
    except ValueError:
        # A linear output with whole numbers as targets is treated as logits.
        return False
    if reading.is_real or hasattr(reading.likelihood, "class_probabilities"):
        return reading.is_real
    raise files.CommandError(
        "The model must be a classifier, or a regressor with a `LocationScale` "
        "likelihood, such as normal. For others use "
        "`kl.conformal.ConformalIntervals`. A model of `fit` is already "
        f"calibrated. Received: {reading.likelihood.name()}"
    )


def _outputs(graph: Any, data: Data) -> Data:
    own, features, y, _ = graph.outputs(data["x"], data["y"], None, 256)
    if isinstance(graph, RegressorGraph):
        own = own.as_numpy()
        if graph.tensors["features"] is graph.prediction:
            features = None
    has_scale = getattr(graph, "has_scale", None)
    return dict(own=own, features=features, y=y, has_scale=has_scale)


def _as_regressor(data: Data) -> Data:
    pair = location_and_scale(data["prediction"], data.get("scale"))
    # Only distributions of columns can be divided into folds.
    location, scale = (v[:, None].astype("float32") for v in pair)
    return {
        "own": likelihoods.Normal(location, scale=scale).as_numpy(),
        "y": data["y"].ravel(),
        "features": data.get("features"),
        "has_scale": "scale" in data,
    }


def _load_outputs(path: str) -> Data:
    names = ("logits", "probs", "prediction", "scale", "features", "y")
    data: Data = files.read_arrays(path, (), names)
    if "probs" in data:
        data |= {"logits": data.pop("probs"), "are_probabilities": True}
    kind = "prediction" if "prediction" in data else "logits"
    # The error names the missing arrays.
    return (
        data if {kind, "y"} <= {*data} else files.read_arrays(path, (kind, "y"))
    )


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
        [*cells, f"{scores[cells[0]]['seconds']:.2f}"]
        for cells in score_rows(task, scores)
    ]
    # Of methods that look level, the first is the simplest.
    best = int(np.nanargmin([round(v["NLL"], 4) for v in scores.values()]))
    console.table(["method", *task.scores, "seconds"], rows, best=best)
    console.say(f"(scores on {task.rows})")
    if is_auto:
        chosen = task.chosen(task.fit("auto"))
        console.result(auto=chosen)
        console.say(f"auto chose {chosen} by cross-validation")
    return scores


def score_rows(task: Task, scores: dict[str, Scores]) -> list[list[str]]:
    """The scores of a task by method, as texts for a table."""
    return [
        [name, *(f"{one[v]:.4f}".replace("nan", "-") for v in task.scores)]
        for name, one in scores.items()
    ]


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


def _next(args: argparse.Namespace, layers: list[Any]) -> tuple[str, str]:
    """What to do next, and the command or line of Python that does it."""
    if args.output and args.test:
        load = "keras.models.load_model" if args.model else "numpy.load"
        own = [type(v).__module__.startswith("keras_like") for v in layers]
        after = ", after `import keras_likelihood`" * any(own)
        return f"load it in Python{after}:", f"{load}({args.output!r})"
    method = args.method if args.method != "auto" else None
    options = {"method": method, "features": args.features}
    if args.test:
        words, test = "write the result:", args.test
        output = "calibrated.keras" if args.model else "calibrated.npz"
        options["output"] = files.unused(output)
    else:
        test = pathlib.Path(args.data).with_stem("test").name
        words = f"evaluate on new data, here {test} (use your own file):"
    line = files.shell_on_data(args, "recalibrate", test=test, **options)
    return words, line
