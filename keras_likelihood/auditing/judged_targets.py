"""Real targets judged by what a regressor says."""

import keras
import numpy as np

from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.auditing.scores import learned_values, score_of
from keras_likelihood.reading.targets import as_targets


def judge_targets(reading, y, data_parameter) -> AuditReport:
    """Judges targets by the size of their errors under the likelihood.

    Args:
        reading: a `Reading` of a regressor.
        y: targets, see `as_targets`.
        data_parameter: as in `audit`.
    """
    n, shape = len(y), reading.prediction.shape
    y = as_targets(y, shape)
    residual = y - reading.prediction
    shared = reading.without_data_parameters()
    parameters = {p.name: p.values for p in shared.parameters}
    learned = learned_values(reading, data_parameter, n) is not None
    # A scale that an example learned excuses its own error.
    fitted = learned or "scale" not in parameters
    if fitted:
        parameters["scale"] = typical_scale(shared, residual)
    nll, tail = _nll_and_tail(reading.likelihood, residual, parameters)
    score = score_of(reading, data_parameter, nll.mean(axis=1))
    # The least of several probabilities is small by chance.
    probability = np.minimum(tail.min(axis=1) * tail.shape[1], 1.0)
    quality = probability
    if learned:
        quality = 1 / (1 + score.values / parameters["scale"])
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
    rule = _rule(learned, fitted, tail.shape[1])
    nll = nll.mean(axis=1)
    return score.report("regression", issues, nll, columns, rule)


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


def _rule(learned, fitted, targets):
    rule = (
        "A target is suspected if fewer than one error of its size were to "
        "be expected among all examples, were the model's likelihood right."
    )
    if fitted:
        rule += " Its scale is taken from the median error of all examples."
    if targets > 1:
        rule += " Of several targets the least probable one is shown."
    order = (
        "learned scale, the highest"
        if learned
        else "tail probability, the least"
    )
    return f"{rule} The list is in the order of the {order} first."
