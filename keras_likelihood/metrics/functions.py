"""The metrics as NumPy functions of whole datasets."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array, Tensor
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
    predicted, share, size = reliability_bins(
        occurred, confidence, weight, bins
    )
    return float(size @ np.abs(share - predicted) / size.sum())


def reliability_bins(
    occurred: Any, confidence: Any, weight: Any = None, bins: int = 15
) -> tuple[Array, Array, Array]:
    """Mean confidence, share of events and weight of the bins with examples."""
    confidence = np.asarray(confidence)
    _check_unit("confidence", confidence)
    weight = as_weight(weight, confidence.shape)
    index = np.clip((confidence * bins).astype(int), 0, bins - 1)
    size = np.bincount(index, weight)
    full = size > 0
    sums = (np.bincount(index, weight * v) for v in (confidence, occurred))
    predicted, share = (each[full] / size[full] for each in sums)
    return predicted, share, size[full]


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


def risk_coverage_area(errors: Any, uncertainty: Any) -> float:
    """Area under the risk-coverage curve (AURC) of selective prediction.

        AURC = mean over k of the mean error of the k most certain examples

    Args:
        errors: loss of each example, or whether it is wrong, `(n,)`.
        uncertainty: a score that is higher for less certain predictions, such
            as a temperature or one minus the confidence, `(n,)`. Examples of
            equal scores count with their mean error.

    >>> risk_coverage_area([0, 1], [0.1, 0.9])
    0.25
    """
    error, index, count = _by_score(errors, uncertainty)
    mean = np.bincount(index, error) / count
    risk = np.cumsum(np.repeat(mean, count)) / np.arange(1, error.size + 1)
    return float(risk.mean())


def area_under_roc(is_outlier: Any, scores: Any) -> float:
    """AUROC: how often an outlier has a higher score than an inlier.

    Args:
        is_outlier: 1 for outliers, 0 for inliers, `(n,)`.
        scores: higher for outliers, `(n,)`. Equal scores count half.

    >>> area_under_roc([0, 1, 1], [0.1, 0.3, 0.2])
    1.0
    """
    outliers, inliers = _outliers(is_outlier, scores)
    below = np.cumsum(inliers) - 0.5 * inliers
    return float(outliers @ below / (outliers.sum() * inliers.sum()))


def false_positive_rate(
    is_outlier: Any, scores: Any, *, recall: float = 0.95
) -> float:
    """Share of inliers above the threshold that finds `recall` of outliers.

    With the default it is known as FPR95. The threshold is the highest score
    at or above which at least this share of the outliers lies. Arguments are as
    in `area_under_roc`.
    """
    outliers, inliers = _outliers(is_outlier, scores)
    needed = recall * outliers.sum() * (1 - 1e-12)
    enough = np.cumsum(outliers[::-1]) >= needed
    return float(np.cumsum(inliers[::-1])[enough.argmax()] / inliers.sum())


def _by_score(values: Any, scores: Any) -> tuple[Array, Array, Array]:
    """Values, the rank of each score, and how often each score occurs."""
    values = finite_numbers(values, "`errors`").ravel()
    scores = finite_numbers(scores, "Scores").ravel()
    fits = values.size == scores.size > 0
    check_argument("scores", scores.shape, fits, f"of shape ({values.size},)")
    unique = np.unique(scores, return_inverse=True, return_counts=True)
    return values, unique[1], unique[2]


def _outliers(is_outlier: Any, scores: Any) -> tuple[Array, Array]:
    """Numbers of outliers and of inliers for each score, in its order."""
    flags, index, count = _by_score(is_outlier, scores)
    kinds = np.unique(flags).tolist()
    check_argument("is_outlier", kinds[:3], kinds == [0, 1], "both 0 and 1")
    outliers = np.bincount(index, flags)
    return outliers, count - outliers


def _checked_cdf(cdf_values: Any) -> Any:
    values = finite_numbers(cdf_values, "`cdf_values`").ravel()
    _check_unit("cdf_values", values)
    return values


def _check_unit(name: str, values: Tensor) -> None:
    """Raises an error unless the values, at least one, lie in [0, 1]."""
    ends = [values.min(), values.max()] if values.size else []
    fits = ends and ends[0] >= 0 and ends[1] <= 1
    received = f"values from {ends[0]:.3g} to {ends[1]:.3g}" if ends else ends
    check_argument(name, received, fits, "in [0, 1]")


def _outcomes(y_true: Tensor, probabilities: Any) -> Any:
    finite_numbers(y_true, "`y_true`")
    y_true = np.asarray(y_true)
    p = finite_numbers(probabilities, "`probabilities`")
    _check_unit("probabilities", p)
    if p.shape == y_true.shape:
        p = p[..., None]
    if p.shape[-1] == 1:
        p = np.concatenate([1 - p, p], axis=-1)
    fits = p.shape[:-1] == y_true.shape
    allowed = f"of shape {p.shape[:-1]}, one class per row of probabilities"
    check_argument("y_true", y_true.shape, fits, allowed)
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
