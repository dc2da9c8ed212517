"""The scores of one model on held-out data."""

import contextlib
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.conformal import ConformalRegressor
from keras_likelihood.likelihoods import Multivariate, Quantiles
from keras_likelihood.likelihoods.checks import to_float64
from keras_likelihood.metrics import functions
from keras_likelihood.reading import read_output
from keras_likelihood.reading.stock_models import with_likelihood
from keras_likelihood.reading.targets import as_targets

_REGRESSION = ("nll", "crps", "coverage", "width", "rmse")
_DRAWS = 64


def scores_by_example(
    model: Any, x: Array, y: Array, coverage: float, batch_size: int
) -> dict[str, Any]:
    """Scores of every example by name, each `(n,)`.

    `rmse` and `ece` are not means over examples. Here `rmse` holds squared
    errors and `ece` holds `(right, confidence)`; see `average`.
    """
    reading = read_output(model, x, batch_size=batch_size)
    y = np.asarray(y)
    is_point = reading.likelihood is None
    if is_point:
        reading = with_likelihood(reading, y, None, None)
    distribution = reading.distribution()
    if hasattr(distribution, "class_probabilities"):
        return _of_classes(distribution, y)
    scores = {name: np.full(len(y), np.nan) for name in _REGRESSION}
    exact = _exact_targets(distribution, y)
    is_quantiles = isinstance(distribution, Quantiles)
    if exact is not None:
        centre = distribution.prediction
        centre = distribution.mean() if is_quantiles else centre
        scores["rmse"] = _rows((exact - to_float64(centre)) ** 2)
    conformal = isinstance(model, ConformalRegressor)
    if is_point and not conformal:
        return scores
    if not is_quantiles and not is_point:
        # The composite likelihood of quantiles is not comparable to others.
        target = np.asarray(y, distribution.prediction.dtype)
        scores["nll"] = _rows(to_float64(distribution.nll(target)))
    interval = (
        model.interval(x, coverage, batch_size=batch_size)
        if conformal
        else _interval(distribution, coverage)
    )
    lower, upper = map(to_float64, interval)
    scores["width"] = _rows(upper - lower)
    if exact is not None:
        scores["coverage"] = _rows((exact >= lower) & (exact <= upper))
    if exact is not None and not is_point:
        scores["crps"] = _rows(crps(distribution, exact))
    return scores


def _exact_targets(distribution: Any, y: Array) -> Array | None:
    """Targets as float64, `None` if some are known only by their bounds."""
    shape = tuple(distribution.outcomes_like().shape)
    if distribution.takes_bounds and y.shape[-1:] == (2,) and y.shape != shape:
        if (y[..., 0] != y[..., 1]).any():
            return None
        y = y[..., 0]
    return as_targets(y, shape)


def _interval(distribution: Any, coverage: float) -> tuple[Array, Array]:
    """Central intervals, of each coordinate if outcomes are vectors."""
    if not isinstance(distribution, Multivariate):
        return distribution.interval(coverage)
    units = range(distribution.prediction.shape[-1])
    each = [distribution.marginal(i).interval(coverage) for i in units]
    ends = zip(*each, strict=True)
    lower, upper = (np.concatenate([*map(to_float64, e)], -1) for e in ends)
    return lower, upper


def _of_classes(distribution: Any, y: Array) -> dict[str, Array]:
    p = to_float64(distribution.class_probabilities())
    p = p.reshape(-1, p.shape[-1])
    nll = to_float64(distribution.nll(y))
    labels = y.argmax(axis=-1) if y.size == p.size and y.ndim > 1 else y
    labels = labels.reshape(-1).astype(int)
    right, confidence = p.argmax(axis=-1) == labels, p.max(axis=-1)
    return {
        "nll": nll.reshape(-1),
        "brier": np.sum((p - np.eye(p.shape[-1])[labels]) ** 2, axis=-1),
        "ece": np.stack([right, confidence], axis=-1),
        "accuracy": right.astype("float64"),
    }


def crps(distribution: Any, y: Array) -> Array:
    """`E|X - y| - E|X - X'| / 2`, from draws if there is no other way."""
    with contextlib.suppress(NotImplementedError):
        return to_float64(distribution.crps(np.float32(y)))
    draws = np.sort(to_float64(distribution.sample(_DRAWS, seed=0)), axis=0)
    rank = np.arange(1, _DRAWS + 1).reshape(-1, *(1,) * y.ndim)
    # The sum is over all pairs of two different draws.
    pairs = np.sum((2 * rank - _DRAWS - 1) * draws, axis=0)
    return np.abs(draws - y).mean(axis=0) - pairs / (_DRAWS * (_DRAWS - 1))


def average(values: dict[str, Any]) -> dict[str, Any]:
    """Means over examples, by score."""
    means = {name: float(np.mean(v)) for name, v in values.items()}
    if "rmse" in means:
        means["rmse"] = float(np.sqrt(means["rmse"]))
    if "ece" in means:
        means["ece"] = functions.binned_error(*values["ece"].T)
    return means


def error_of_average(values: dict[str, Any]) -> dict[str, Any]:
    """Standard errors of `average`, from the variance over the examples."""
    errors = {}
    for name, each in values.items():
        errors[name] = float(np.std(each) / np.sqrt(len(each)))
        if name == "rmse":
            # Standard error of a square root, to first order.
            errors[name] /= max(2 * np.sqrt(np.mean(each)), 1e-300)
        if name == "ece":
            random, n = np.random.default_rng(0), len(each)
            picks = random.integers(n, size=(50, n))
            drawn = [functions.binned_error(*each[pick].T) for pick in picks]
            errors[name] = float(np.std(drawn))
    return errors


def _rows(values: Array) -> Array:
    return values.reshape(len(values), -1).mean(axis=1)
