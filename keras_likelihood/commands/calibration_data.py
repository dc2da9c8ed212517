"""Reads the data of `keras-likelihood recalibrate`."""

from argparse import Namespace
from typing import Any

import numpy as np

from keras_likelihood import likelihoods
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
from keras_likelihood.reading.stock_models import with_likelihood
from keras_likelihood.reading.targets import location_and_scale


def load_task(args: Namespace) -> Task:
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
                f"{args.test} must have the arrays of {args.data}, with the "
                "same shapes after the first axis: "
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
    args: Namespace,
    *,
    features: str | None = None,
    **options: Any,
) -> Task:
    """Runs a model on its data and detects the task."""
    graph: Any
    of_graph: Any = {"features": features, "with_features": "optional"}
    with files.running(args.model, args.data):
        if _is_regressor(model, val["x"], val["y"], args.task):
            graph = RegressorGraph(model, val["x"], **of_graph)
        else:
            of_graph["from_logits"] = False if args.probabilities else None
            graph = ClassifierGraph(model, val["x"], **of_graph)
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
