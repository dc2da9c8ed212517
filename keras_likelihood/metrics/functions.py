"""The metrics as NumPy functions of whole datasets."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import (
    as_weight,
    check_argument,
    check_coverage,
    finite_numbers,
)


def expected_calibration_error(
    y_true: Any,
    probabilities: Any,
    *,
    bins: int = 15,
    sample_weight: Any = None,
) -> float:
    """Mean gap between confidence and accuracy over bins of confidence.

        ECE = sum_b n_b / n |accuracy_b - confidence_b|

    Args:
        y_true: class numbers `(n, ...)`, or 0/1 for one column.
        probabilities: `(n, ..., classes)`, or `(n, ...)` of class 1.
        bins: number of bins of equal width. Defaults to 15.
        sample_weight: `(n, ...)`, or `None`.

    >>> expected_calibration_error([1, 0], [[0.2, 0.8], [0.7, 0.3]])
    0.25
    """
    right, confidence = top_class(y_true, probabilities)
    return binned_error(right, confidence, sample_weight, bins)


def binned_error(
    occurred: Any, confidence: Any, weight: Any = None, bins: int = 15
) -> float:
    """Calibration error of predicted probabilities `(n,)` of binary events."""
    confidence = np.asarray(confidence)
    _check_unit("confidence", confidence)
    weight = as_weight(weight, confidence.shape)
    index = np.clip((confidence * bins).astype(int), 0, bins - 1)
    gaps = np.bincount(index, weight * (occurred - confidence))
    return float(np.abs(gaps).sum() / weight.sum())


def top_class(y_true: Tensor, probabilities: Any) -> Any:
    """Whether the top class is correct, and its probability, `(n,)`."""
    outcome, p = _outcomes(y_true, probabilities)
    return p.argmax(axis=1) == outcome, p.max(axis=1)


def negative_log_likelihood(
    y_true: Tensor, probabilities: Any, sample_weight: Any = None
) -> Any:
    """Mean negative log of the probability of the true class."""
    outcome, p = _outcomes(y_true, probabilities)
    chosen = p[np.arange(len(p)), outcome]
    nll = -np.log(np.maximum(chosen, np.finfo(p.dtype).tiny))
    return float(np.average(nll, weights=as_weight(sample_weight, nll.shape)))


def calibration_error(
    cdf_values: Any, *, levels: int = 20, sample_weight: Any = None
) -> float:
    """Calibration error (CAL) of the intervals of a regressor.

        CAL = sum_j (p_j - #{i: F_i(y_i) <= p_j} / n)^2

    with the levels p_j = j / levels, j = 1 .. levels - 1.

    Args:
        cdf_values: the predicted cdf at the target, F_i(y_i), in [0, 1].
        levels: number of equal steps in p. Defaults to 20.
        sample_weight: weights of the values, or `None`.
    """
    values = _checked_cdf(cdf_values)
    p = np.arange(1, levels) / levels
    order = np.argsort(values)
    below = np.searchsorted(values[order], p, side="right")
    weight = as_weight(sample_weight, values.shape)[order]
    share = np.append(0.0, np.cumsum(weight))[below] / weight.sum()
    return float(np.sum((p - share) ** 2))


def interval_coverage(cdf_values: Any, coverage: float = 0.9) -> float:
    """Fraction of targets inside the central interval of this coverage."""
    check_coverage(coverage)
    tail = (1 - coverage) / 2
    values = _checked_cdf(cdf_values)
    return float(np.mean((values >= tail) & (values <= 1 - tail)))


def _checked_cdf(cdf_values: Any) -> Any:
    values = finite_numbers(cdf_values, "`cdf_values`").ravel()
    _check_unit("cdf_values", values)
    return values


def _check_unit(name: str, values: Tensor) -> None:
    """Raises an error unless the values, at least one, lie in [0, 1]."""
    if not values.size:
        raise ValueError(f"`{name}` must be in [0, 1]. Received: no values")
    if values.min() < 0 or values.max() > 1:
        raise ValueError(
            f"`{name}` must be in [0, 1]. "
            f"Received: values from {values.min():.3g} to {values.max():.3g}"
        )


def _outcomes(y_true: Tensor, probabilities: Any) -> Any:
    finite_numbers(y_true, "`y_true`")
    y_true = np.asarray(y_true)
    p = finite_numbers(probabilities, "`probabilities`")
    _check_unit("probabilities", p)
    if p.shape == y_true.shape:
        p = p[..., None]
    if p.shape[-1] == 1:
        p = np.concatenate([1 - p, p], axis=-1)
    if p.shape[:-1] != y_true.shape:
        raise ValueError(
            "`y_true` must have the shape of `probabilities` without the last "
            f"axis. Received: {y_true.shape} and {p.shape}"
        )
    sums = p.sum(axis=-1)
    # Half precision is allowed.
    off = sums[np.abs(sums - 1) > 0.01][:3].tolist()
    allowed = "rows that sum to 1; apply a softmax to logits"
    check_argument("probabilities", off, not off, allowed)
    is_class = (y_true % 1 == 0) & (y_true >= 0) & (y_true < p.shape[-1])
    allowed = f"class indices from 0 to {p.shape[-1] - 1}"
    others = y_true[~is_class][:3].tolist()
    check_argument("y_true", others, is_class.all(), allowed)
    return y_true.ravel().astype(int), p.reshape(-1, p.shape[-1])
