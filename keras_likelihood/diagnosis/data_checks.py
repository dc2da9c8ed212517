"""Checks of inputs, targets and predictions."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras.ops import convert_to_numpy

from keras_likelihood.backend.types import Array
from keras_likelihood.diagnosis.diagnosis import Finding
from keras_likelihood.likelihoods import Bernoulli, Softmax
from keras_likelihood.reading.endings import PROBABILITIES
from keras_likelihood.reading.targets import are_probabilities, in_range


def check_finite(model: Any, x: Array, outputs: list[Any]) -> Iterator[Finding]:
    """Findings about NaN and infinity, the cause first."""
    weights = [v for v in model.weights if "float" in v.dtype]
    places = {"inputs": sum(map(_bad, keras.tree.flatten(x)))}
    for output in outputs:
        y = output.y
        if output.likelihood.takes_bounds:
            # An infinite bound means that there is no bound.
            y = np.where(np.isinf(y), 0, y)
        places[f"targets{output.title}"] = _bad(y)
    places["weights"] = sum(map(_bad, map(convert_to_numpy, weights)))
    for output in outputs:
        places[f"predictions{output.title}"] = _bad(output.prediction)
        for parameter in output.parameters:
            place = f"{parameter.name}{output.title}"
            places[place] = _bad(parameter.values)
    evidence = {place: count for place, count in places.items() if count}
    if not evidence:
        return
    first = next(iter(evidence))
    yield Finding(
        "not_finite",
        f"There are NaN or infinite numbers. The first are in the {first}.",
        evidence,
        "Remove or fill them."
        if first.startswith(("inputs", "targets"))
        else "Build a new model: NaN weights do not recover. Lower the "
        "learning rate, standardise the data, or set `clipnorm`.",
    )


def _bad(array: Array) -> int:
    array = np.asarray(array)
    if array.dtype.kind in "OSUT":
        return 0
    # NumPy does not know the finite numbers of `bfloat16`.
    array = array if array.dtype.kind in "biuf" else array.astype("float32")
    return int(np.size(array) - np.isfinite(array).sum())


def check_targets(output: Any) -> Iterator[Finding]:
    """Findings about the unit of real targets."""
    if not output.is_real:
        return
    columns = output.y.reshape(-1, output.y.shape[-1]).astype("float64")
    mean, sd = columns.mean(axis=0), columns.std(axis=0)
    size = np.maximum(sd, 1e-30)
    # A mean of ten deviations is as bad as a deviation of ten.
    badness = np.maximum(np.abs(np.log10(size)), np.abs(mean) / size / 10)
    worst = int(np.argmax(badness))
    evidence = {"mean": float(mean[worst]), "sd": float(sd[worst])}
    if not sd.all():
        yield Finding(
            "constant_targets",
            f"The targets{output.title} are all the same in at least one "
            "column, so the scale can only fall to zero.",
            evidence,
            "Check how the targets were loaded, or remove the column.",
        )
        return
    # The unit is 1 unless `adapt` of the head was called.
    is_adapted = any(p.unit != 1 for p in output.parameters)
    if not is_adapted and badness[worst] > 1:
        yield Finding(
            "unscaled_targets",
            f"The targets{output.title} are not standardised, but heads start "
            "at prediction 0 and scale 1.",
            evidence,
            "Call `model.adapt(y)` before `fit` if the model ends in a head. "
            "Otherwise train on `(y - y.mean()) / y.std()`.",
        )


def check_labels(output: Any) -> Iterator[Finding]:
    """Findings about labels out of range."""
    y, classes = output.y, output.prediction.shape[-1]
    is_softmax = issubclass(output.likelihood, Softmax)
    if is_softmax and y.shape != output.prediction.shape:
        wrong, allowed = ~in_range(y, classes), f"0 to {classes - 1}"
    elif issubclass(output.likelihood, Softmax | Bernoulli):
        # Soft targets lie between 0 and 1.
        wrong, allowed = (y < 0) | (y > 1), "0 to 1"
    else:
        return
    if not wrong.any():
        return
    yield Finding(
        "labels_out_of_range",
        f"{int(wrong.sum())} label(s){output.title} are not in {allowed}, so "
        "their loss is meaningless.",
        {
            "allowed": allowed,
            "received": np.unique(y[wrong])[:5].tolist(),
            "examples": sorted({*np.nonzero(wrong)[0].tolist()})[:10],
        },
        "Number the classes from 0, with one output each, and give examples "
        "without a label weight 0.",
    )


def check_logits(output: Any) -> Iterator[Finding]:
    """Findings about probabilities in the place of logits."""
    likelihood, p = output.likelihood, output.prediction
    # Values in [0, 1] may be logits, but not if they come from a sigmoid.
    if issubclass(likelihood, Softmax | Bernoulli) and (
        output.kind in PROBABILITIES
        or issubclass(likelihood, Softmax)
        and are_probabilities(p.reshape(-1, p.shape[-1]))
    ):
        yield Finding(
            "probabilities_as_logits",
            f"The predictions{output.title} look like probabilities, but the "
            "loss takes logits and applies the softmax or sigmoid itself.",
            {"smallest": float(p.min()), "largest": float(p.max())},
            "Remove the softmax or sigmoid of the last layer.",
        )


def check_outliers(output: Any) -> Iterator[Finding]:
    """Findings about a few examples that dominate the loss."""
    nll = output.nll(output.y)
    if len(nll) < 50 or not np.isfinite(nll).all():
        return
    excess = np.maximum(nll - np.median(nll), 0)
    count = -(-len(nll) // 100)
    worst = np.argsort(excess)[::-1][:count]
    total = excess.sum()
    share = float(excess[worst].sum() / total) if total > 0 else 0.0
    # If the mean loss is far below 1, no example matters much.
    if share < 0.5 or total < 0.1 * len(nll):
        return
    yield Finding(
        "outliers_in_loss",
        f"{count} of {len(nll)} examples make up {share:.0%} of the "
        f"loss{output.title} above its median, so they dominate the training.",
        {
            "share": share,
            "largest_nll": float(nll.max()),
            "median_nll": float(np.median(nll)),
            "examples": worst[:10].tolist(),
        },
        "Look at these examples first, with `kl.audit`. If they are right, "
        "use heavier tails: `StudentTLoss` or `RobustRhoLoss`."
        if output.is_real
        else "Look at these labels first. `kl.audit` shows them on a page. "
        "With a `kl.DataParameter`, wrong labels get a high temperature.",
    )
