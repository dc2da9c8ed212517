"""Reads the data of `keras-likelihood recalibrate`."""

from argparse import Namespace
from typing import Any, TypeAlias

import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.types import Array
from keras_likelihood.commands import files
from keras_likelihood.commands.tasks import ClassifierTask, RegressorTask
from keras_likelihood.reading import read_output
from keras_likelihood.reading.stock_models import with_likelihood
from keras_likelihood.recalibration.graphs import (
    ClassifierGraph,
    RegressorGraph,
)
from keras_likelihood.recalibration.regression import location_and_scale

Data: TypeAlias = dict[str, Any]


def load_task(args: Namespace) -> ClassifierTask | RegressorTask:
    """Reads the data for fitting and for evaluation."""
    if args.model:
        model, val, test = files.read_model_and_data(args)
        return task_of_model(model, val, test, args)
    val, test = _load_outputs(args.data), None
    if args.test:
        test = _load_outputs(args.test)
        needed, found = (
            {name: np.shape(a)[1:] for name, a in data.items() if name != "y"}
            for data in (val, test)
        )
        if needed != found:
            raise files.CommandError(
                f"{args.test} must have the arrays of {args.data}, with the "
                f"same shapes after the first axis: {needed}. Received: {found}"
            )
    if "logits" not in val:
        return RegressorTask(_as_regressor(val), test and _as_regressor(test))
    for data in filter(None, (val, test)):
        data["own"] = data["logits"]
        data.setdefault("features", None)
    return ClassifierTask(
        val,
        test,
        from_logits=not (args.probabilities or val.get("are_probabilities")),
        changes_classes=args.change_classes,
    )


def task_of_model(
    model: Any, val: Data, test: Data | None, args: Namespace
) -> ClassifierTask | RegressorTask:
    """Runs a model on its data and detects the task."""
    options = {"features": args.features, "with_features": "optional"}
    with files.running(args.model, args.data):
        is_regressor = _is_regressor(model, val["x"], val["y"], args.task)
        if not is_regressor:
            options["from_logits"] = False if args.probabilities else None
        graph_of = RegressorGraph if is_regressor else ClassifierGraph
        graph = graph_of(model, val["x"], **options)
        fitted_to = _outputs(graph, val)
    with files.running(args.model, args.test or args.data):
        judged_on = test and _outputs(graph, test)
    if not is_regressor:
        changes = getattr(args, "change_classes", False)
        options = {"changes_classes": changes}
        return ClassifierTask(
            fitted_to, judged_on, graph.calibrated_model, **options
        )

    def calibrated_model(recalibrator: Any) -> Any:
        recalibrator.fit(model, val["x"], val["y"], features=args.features)
        return recalibrator.model

    return RegressorTask(fitted_to, judged_on, calibrated_model)


def _is_regressor(model: Any, x: Array, y: Array, task: str | None) -> bool:
    """Whether a model predicts numbers, judged by a few examples."""
    if task:
        return task == "regression"
    reading = read_output(model, x[:32])
    try:
        reading = with_likelihood(reading, y, None, None)
    except ValueError:
        # A linear output with whole numbers as targets is treated as logits.
        return False
    if reading.is_real or hasattr(reading.likelihood, "class_probabilities"):
        return reading.is_real
    raise files.CommandError(
        "The model must be a classifier, or a regressor with a `LocationScale` "
        "likelihood, such as normal. For other regressors use "
        "`kl.conformal.ConformalIntervals`. A model written by `fit` is "
        "already calibrated: use `keras-likelihood predict`. "
        f"Received: {reading.likelihood.name()}"
    )


def _outputs(graph: Any, data: Data) -> Data:
    own, features, y, _ = graph.outputs(data["x"], data["y"], None, 256)
    if isinstance(graph, ClassifierGraph):
        return {"own": own, "features": features, "y": y}
    if graph.tensors.get("features") is graph.prediction:
        features = None
    outputs = {"own": own.as_numpy(), "features": features, "y": y}
    return outputs | {"has_scale": graph.has_scale}


def _as_regressor(data: Data) -> Data:
    given = data["prediction"], data.get("scale")
    location, scale = map(np.float32, location_and_scale(*given))
    return {
        "own": likelihoods.Normal(location, scale=scale),
        "y": data["y"].ravel(),
        "features": data.get("features"),
        "has_scale": "scale" in data,
    }


def _load_outputs(path: str) -> Data:
    names = ("logits", "probs", "prediction", "scale", "features", "y")
    found: dict[str, Any] = files.read_arrays(path, (), names)
    if "probs" in found:
        found["logits"] = found.pop("probs")
        found["are_probabilities"] = True
    wanted = "prediction" if "prediction" in found else "logits"
    if not {wanted, "y"} <= found.keys():
        return files.read_arrays(path, (wanted, "y"))
    return found
