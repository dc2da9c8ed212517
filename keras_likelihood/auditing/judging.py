"""Labels and targets judged by what a model says of them."""

import keras
import numpy as np

from keras_likelihood.auditing.label_issues import find_label_issues
from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.auditing.scores import learned_values, score_of
from keras_likelihood.auditing.true_classes import (
    expected_wrong,
    true_class_probabilities,
)
from keras_likelihood.reading.targets import as_labels, as_targets


def judge_labels(reading, y, data_parameter) -> AuditReport:
    """Judges class labels under the class probabilities of a `Reading`."""
    y = as_labels(y, reading.prediction.shape)
    # What an example learned of its own label would excuse it.
    shared = reading.without_data_parameters()
    p = keras.ops.convert_to_numpy(shared.distribution().mean())
    if p.shape[1] == 1:
        p = np.concatenate([1 - p, p], axis=1)
    nll = shared.nll(y)
    memory, temperature = learned_values(reading, data_parameter, len(y))
    if memory is not None:
        return _judge_by_memory(y, nll, memory)
    order = (
        "the probability of the given label, the lowest first"
        if temperature is None
        else "the learned temperature, the highest first"
    )
    return AuditReport(
        "classification",
        *score_of(reading, temperature, nll),
        find_label_issues(y, p, temperature),
        nll,
        {"p(given)": np.exp(-nll), "p(predicted)": p.max(axis=1)},
        "A label is suspected if another class is the most probable one, and "
        "as probable as that class is on average where it is the given label "
        f"(confident learning). The list is in the order of {order}.",
    )


def _judge_by_memory(y, nll, memory):
    truth = true_class_probabilities(y, memory)
    rows = np.arange(len(y))
    quality = truth[rows, y]
    issues = {
        "is_label_issue": quality < 0.5,
        "label_quality": quality,
        "given_label": y,
        "predicted_label": truth.argmax(axis=1),
    }
    wrong = expected_wrong(y, truth)
    overlapping = true_class_probabilities(y, memory, power=1.0)
    fewer = min(expected_wrong(y, overlapping), wrong)
    return AuditReport(
        "classification",
        nll - np.log(np.clip(memory[rows, y], 1e-6, 1)),
        "doubt of the label",
        "Minus the logarithm of two probabilities of the given label: the one "
        "that the network gives it now, and the one that it gave it on "
        "average while it trained.",
        issues,
        nll,
        {"p(given)": np.exp(-nll), "p(label is right)": quality},
        "A label is suspected if the training's memory of the example makes "
        "it more probable that the label is wrong than that it is right. "
        f"In all, {wrong:,.0f} of the {len(y):,} labels are expected to be "
        "wrong if every input shows its class, as most photographs do. If "
        "classes overlap, an unusual example looks like a wrong label: then "
        f"{fewer:,.0f} are.",
    )


def judge_targets(reading, y, data_parameter) -> AuditReport:
    """Judges targets by the size of their errors under the likelihood."""
    n, shape = len(y), reading.prediction.shape
    y = as_targets(y, shape)
    residual = y - reading.prediction
    shared = reading.without_data_parameters()
    parameters = {p.name: p.values for p in shared.parameters}
    _, learned = learned_values(reading, data_parameter, n)
    # A scale that an example learned excuses its own error.
    is_fitted = learned is not None or "scale" not in parameters
    if is_fitted:
        parameters["scale"] = typical_scale(shared, residual)
    nll, tail = _nll_and_tail(reading.likelihood, residual, parameters)
    # The least of several probabilities is small by chance.
    probability = np.minimum(tail.min(axis=1) * tail.shape[1], 1.0)
    quality = probability
    if learned is not None:
        quality = 1 / (1 + learned / parameters["scale"])
    at = (np.arange(n), tail.argmin(axis=1))
    scale = np.broadcast_to(parameters["scale"], shape).reshape(n, -1)[at]
    issues = {
        "is_label_issue": probability * n < 1,
        "label_quality": quality,
        "given_label": y.reshape(n, -1)[at],
        "predicted_label": reading.prediction.reshape(n, -1)[at],
    }
    columns = {
        "scale": scale,
        "residual / scale": residual.reshape(n, -1)[at] / scale,
        "tail probability": probability,
    }
    nll = nll.mean(axis=1)
    rule = _rule(learned is not None, is_fitted, tail.shape[1])
    score = score_of(reading, learned, nll)
    return AuditReport("regression", *score, issues, nll, columns, rule)


def typical_scale(reading, residual) -> float:
    """The scale at which the median error is the likelihood's own.

    scale = median |residual| / q,    P(|z| <= q) = 1/2
    """
    others = {
        p.name: float(np.median(p.values))
        for p in reading.parameters
        if p.name != "scale"
    }
    unit = reading.likelihood(np.zeros((1, 1), "float32"), **others)
    middle = _numpy(unit.quantile(0.75)).item()
    size = np.abs(residual)
    # Half of the errors or more may be exactly zero.
    return float(np.median(size) / middle or size.mean() or 1.0)


def _nll_and_tail(likelihood, residual, parameters):
    """NLL and the probability of a larger error, `(n, targets)` each."""
    around_zero = likelihood(
        np.zeros(residual.shape, "float32"),
        **{k: np.asarray(v, "float32") for k, v in parameters.items()},
    )
    nll = around_zero.nll(residual.astype("float32"))
    tail = around_zero.cdf(-np.abs(residual).astype("float32"))
    n = len(residual)
    return _numpy(nll).reshape(n, -1), 2 * _numpy(tail).reshape(n, -1)


def _numpy(tensor):
    return keras.ops.convert_to_numpy(tensor).astype("float64")


def _rule(is_learned, is_fitted, targets):
    rule = (
        "A target is suspected if fewer than one error of its size is "
        "expected among all examples under the model's likelihood."
    )
    if is_fitted:
        rule += " Its scale is taken from the median error of all examples."
    if targets > 1:
        rule += " Of several targets the least probable one is shown."
    order = "tail probability, the least"
    if is_learned:
        order = "learned scale, the highest"
    return f"{rule} The list is in the order of the {order} first."
