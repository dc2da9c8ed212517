"""Reads the data of `keras-likelihood recalibrate`."""

import os
import pathlib

import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.csv_tables import CsvTable
from keras_likelihood.commands import files
from keras_likelihood.commands.tasks import ClassifierTask, RegressorTask
from keras_likelihood.reading import read_output
from keras_likelihood.reading.stock_models import with_likelihood
from keras_likelihood.reading.targets import as_labels, as_targets
from keras_likelihood.recalibration.classifier_graph import ClassifierGraph
from keras_likelihood.recalibration.regression.regressor_graph import (
    RegressorGraph,
)


def load_task(args):
    """Reads the data to fit to and the data to judge on."""
    if not args.model:
        return _task_of_arrays(args)
    model = files.load_model(args.model)
    val = files.read_examples(model, args.data, args)
    test = files.read_alike(model, args.test, args, val) if args.test else None
    return task_of_model(model, val, test, args)


def task_of_model(model, val, test, args):
    """Runs a model on its data, and finds out which task it has."""
    with files.running(args.model, args.data):
        task = args.task or _find_task(model, val["x"], val["y"])
        is_regressor = task == "regression"
        open_model = _open_regressor if is_regressor else _open_classifier
        outputs, calibrated_model = open_model(model, val, args)
        fitted_to = outputs(val)
    with files.running(args.model, args.test or args.data):
        judged_on = outputs(test) if test else None
    if is_regressor:
        return RegressorTask(fitted_to, judged_on, calibrated_model)
    return _classifier_task(args, fitted_to, judged_on, calibrated_model)


def _find_task(model, x, y):
    """Finds out from a few examples whether a model predicts classes."""
    reading = read_output(model, x[:32])
    if reading.likelihood is None:
        try:
            reading = with_likelihood(reading, y, None, None)
        except ValueError:
            # With whole numbers and a linear output, the output counts as
            # logits.
            return "classification"
    if reading.is_real:
        return "regression"
    # The members of an ensemble have a likelihood, too.
    own = getattr(reading.likelihood, "likelihood", reading.likelihood)
    if own in (likelihoods.Softmax, likelihoods.Bernoulli):
        return "classification"
    if hasattr(reading.likelihood, "components"):
        raise files.CommandError(
            "An ensemble of regressors is calibrated by "
            "`kl.recalibration.regression.Conformal`, and a model that `fit` "
            "wrote is calibrated already: use `keras-likelihood predict`. "
            f"Received: {reading.likelihood.name()}"
        )
    raise files.CommandError(
        "The model must be a classifier, or a regressor with a "
        "`LocationScale` likelihood, such as normal. "
        f"Received: {reading.likelihood.name()}"
    )


def _open_classifier(model, val, args):
    """Functions: the outputs for some data, the model for a recalibrator."""
    graph = ClassifierGraph(
        model,
        val["x"],
        from_logits=False if args.probabilities else None,
        features=args.features,
        with_features="optional",
    )

    def outputs(data):
        logits, features, y, _ = graph.outputs(data["x"], data["y"])
        return {"logits": logits, "features": features, "y": y}

    return outputs, graph.extend


def _open_regressor(model, val, args):
    """The same for a regressor."""
    graph = RegressorGraph(
        model, val["x"], features=args.features, with_features="optional"
    )
    shape = tuple(graph.prediction.shape)
    if shape[1:] != (1,):
        raise files.CommandError(
            "A regressor must predict one number for each example, "
            f"(n, 1). Received: a prediction of shape {shape}"
        )
    no_features = graph.features is graph.prediction

    def outputs(data):
        own, features, y, _ = graph.outputs(data["x"], data["y"], None, 256)
        return {
            "own": own,
            "y": as_targets(y, tuple(own.prediction.shape)),
            "features": None if no_features else features,
            "has_scale": graph.has_scale,
        }

    def calibrated_model(recalibrator):
        options = {"features": args.features}
        return recalibrator.fit(model, val["x"], val["y"], **options).model

    return outputs, calibrated_model


def _classifier_task(args, val, test, calibrated_model=None):
    for data in filter(None, (val, test)):
        shape = np.shape(data["logits"])
        shape = shape if len(shape) > 1 else (*shape, 1)
        data["y"] = as_labels(data["y"], shape).reshape(shape[:-1])
    from_logits = calibrated_model is not None or not args.probabilities
    return ClassifierTask(val, test, calibrated_model, from_logits)


def _task_of_arrays(args):
    """The task of outputs in files, which are logits or predictions."""
    val = _load_outputs(args.data)
    test = _load_outputs(args.test) if args.test else {}
    if test and ("logits" in test) != ("logits" in val):
        raise files.CommandError(
            f"{args.test} must hold the arrays of {args.data}. "
            f"Received: {sorted(test)}"
        )
    names = ("logits", "scale", "features")
    for name in [n for n in names if test and n in val]:
        needed = np.shape(val[name])[1:]
        found = np.shape(test[name])[1:] if name in test else None
        if needed != found:
            raise files.CommandError(
                f"`{name}` must have the shape (n, ...) of {args.data} in "
                f"{args.test} too, after n {needed}. Received: {found}"
            )
    if "logits" in val:
        return _classifier_task(args, val, test)
    return RegressorTask(_as_regressor(val), test and _as_regressor(test))


def _load_outputs(path):
    if os.path.isdir(path):
        return _load_folder(path)
    suffix = files.regular_file(path).suffix
    if suffix == ".csv":
        return _load_logits(path)
    if suffix != ".npz":
        raise files.UsageError(f"Data must be .npz or .csv. Received: {path}")
    names = ("logits", "prediction", "scale", "features", "y")
    found = files.read_arrays(path, (), names)
    wanted = "prediction" if "prediction" in found else "logits"
    if not {wanted, "y"} <= found.keys():
        return files.read_arrays(path, (wanted, "y"))
    return found


def _load_folder(path):
    """The memory-mapped `logits.npy` and `y.npy` of a folder."""
    found = {}
    for name in ("logits", "y"):
        file = files.regular_file(pathlib.Path(path) / f"{name}.npy")
        try:
            found[name] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (ValueError, OSError) as error:
            raise files.CommandError(
                f"{file}: a plain array of numbers is needed. Received: {error}"
            ) from error
    logits, y = found["logits"], found["y"]
    kinds = {logits.dtype.kind, y.dtype.kind}
    if logits.ndim != 2 or len(y) != len(logits) or kinds - set(files.NUMBERS):
        raise files.CommandError(
            f"{path}: `logits` must be numbers of shape (rows, classes), and "
            "`y` a class number for each row. Received: "
            f"{logits.shape} of {logits.dtype} and {y.shape} of {y.dtype}"
        )
    return found


def _load_logits(path):
    """Logits of a .csv, with the class number in the last column."""
    file = CsvTable(path)
    table = np.concatenate(list(file.chunks(fill=False)))
    if file.changed or table.shape[1] < 2:
        raise files.CommandError(
            f"{path}: a .csv must hold columns of logits, then the class "
            f"number. Received: {table.shape[1]} column(s). {file.note}"
        )
    files.refuse_nan(path, "the table", table)
    return {"logits": table[:, :-1], "y": table[:, -1]}


def _as_regressor(data):
    prediction, y = (np.float32(data[k]).ravel() for k in ("prediction", "y"))
    scale = np.float32(data.get("scale", np.ones_like(prediction))).ravel()
    if scale.shape != prediction.shape or not scale.min() > 0:
        raise files.CommandError(
            "`scale` must have a number > 0 for each prediction. "
            f"Received: {scale.shape} values from {scale.min():.3g}"
        )
    return {
        "own": likelihoods.Normal(prediction, scale=scale),
        "y": y,
        "features": data.get("features"),
        "has_scale": "scale" in data,
    }
