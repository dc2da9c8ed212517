"""Conformal sets and intervals, and the scores that calibrate them."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_likelihood.layers.conformal_scores import CalibrationScores
from keras_likelihood.likelihoods import Likelihood, Quantiles
from keras_likelihood.likelihoods.checks import as_numbers

SCORES = ("aps", "raps", "lac")

ROUNDING = 1e-5
"""Largest relative rounding error of a probability on any backend."""


def class_scores(
    probabilities,
    score: str,
    *,
    penalty: float = 0.0,
    free_classes: int = 0,
    random=None,
    rounded: bool = False,
) -> np.ndarray:
    """Scores of all classes. A larger score is a worse fit.

        aps:  probability of the classes likelier than c, less 1
        raps: aps + penalty * max(0, rank of c - free_classes)
        lac:  -log(probability of c)

    The score `aps` adds probabilities from the least probable class up. So it
    is exact even if the most probable class has probability 1. With `random`,
    uniform numbers `(n, ..., 1)`, only a part of the probability of c counts.
    If scores are `rounded`, they are lower by the rounding error of the
    probabilities, so that equal inputs get equal sets.
    """
    p = np.asarray(probabilities, dtype="float64")
    slack = ROUNDING if rounded else 0.0
    if score == "lac":
        return -np.log(np.maximum(p, np.finfo("float32").tiny)) - slack
    order = np.argsort(-p, axis=-1, kind="stable")
    falling = np.take_along_axis(p, order, axis=-1)
    rest = np.cumsum(falling[..., ::-1], axis=-1)[..., ::-1]
    if random is not None:
        rest = rest - (1 - random) * falling
    found = -(1 + slack) * rest
    if score == "raps":
        beyond = np.arange(1, p.shape[-1] + 1) - free_classes
        found = found + penalty * np.maximum(beyond, 0)
    in_class_order = np.empty_like(found)
    np.put_along_axis(in_class_order, order, found, axis=-1)
    return in_class_order


def prediction_sets(
    probabilities, scores, settings: dict, coverage, groups=None, seed=None
) -> np.ndarray:
    """Which classes belong to the sets of a coverage, `(n, ..., classes)`.

    The probabilities may be those of yes, `(n,)` or `(n, ..., 1)`.
    """
    p = np.asarray(probabilities, dtype="float64")
    if p.ndim == 1:
        p = p[:, None]
    if p.shape[-1] == 1:
        p = np.concatenate([1 - p, p], axis=-1)
    random = None
    if settings["randomized"]:
        uniform = np.random.default_rng(seed).uniform
        random = uniform(size=(*p.shape[:-1], 1))
    used = {n: settings[n] for n in ("score", "penalty", "free_classes")}
    found = class_scores(p, **used, random=random, rounded=True)
    if not settings["by_class"]:
        bound = scores.threshold(coverage, groups, len(p))[..., None]
    elif groups is None:
        classes = p.shape[-1]
        bound = scores.threshold(coverage, np.arange(classes), classes)
    else:
        raise ValueError(
            "The groups of this calibration are the classes. "
            "Leave out `groups`. Received: groups"
        )
    sets = found <= bound
    if not settings["allow_empty"]:
        top = p.argmax(axis=-1)[..., None]
        np.put_along_axis(sets, top, True, axis=-1)
    return sets


LEVEL = 0.998
"""Up to this coverage intervals end at quantiles. Beyond it they are widened
in proportion, because a cdf in float32 no longer separates such targets.
"""

_ROUNDING = 1e-3
"""Relative reduction of the tail probabilities. It makes sure that the
rounding of a quantile does not exclude a target of the same score.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class ConformalDistribution:
    """A distribution whose intervals were calibrated on held-out examples."""

    distribution: Likelihood
    scores: CalibrationScores
    groups: Any = None

    def interval(self, coverage: float = 0.9):
        """Interval that contains a new target with the given probability.

        The guarantee holds on average over calibration sets and examples (of
        each group), and not for every single example. `(lower, upper)` are
        NumPy arrays of the targets' shape.
        """
        shape = _targets_shape(self.distribution)
        bound = self.scores.threshold(coverage, self.groups, shape[0])
        lower, upper = map(_numpy, inner_interval(self.distribution, bound))
        further = beyond_level(bound)
        if further.any():
            spread = _spread(*_ends(self.distribution))
            lower, upper = lower - further * spread, upper + further * spread
        return np.broadcast_to(lower, shape), np.broadcast_to(upper, shape)


def inner_interval(distribution: Likelihood, bound):
    """The central interval of coverage `bound`, at most 0.998."""
    tail = 0.5 * (1 - np.minimum(bound, LEVEL)) * (1 - _ROUNDING)
    if tail.size == 1:
        # If the density is symmetric, one quantile is enough.
        return distribution.interval(1 - 2 * tail.item())
    dtype = keras.backend.standardize_dtype(distribution.prediction.dtype)
    tail = tail.astype(dtype)
    return distribution.quantile(tail), distribution.quantile(1 - tail)


def beyond_level(bound) -> np.ndarray:
    """How many widths of the 99.8 % interval are added at each end."""
    return np.maximum(np.asarray(bound) - LEVEL, 0) * (1 + 1e-6)


def interval_scores(distribution: Likelihood, y) -> np.ndarray:
    """The smallest coverage whose central interval contains each target.

    Beyond a coverage of 0.998 the score grows with the distance from the
    interval of that coverage, in widths of this interval. So different
    outliers have different scores.
    """
    y = checked_targets(y, distribution)
    dtype = keras.backend.standardize_dtype(distribution.prediction.dtype)
    lower, upper = _ends(distribution)
    outside = np.maximum(lower - y, y - upper)
    within = np.clip(y, lower, upper).astype(dtype)
    at_most = _numpy(distribution.cdf(within))
    # The probability below y differs from the cdf for counts.
    less = at_most
    if distribution.is_discrete:
        less = _numpy(distribution.cdf_below(within))
    inner = np.clip(np.maximum(1 - 2 * at_most, 2 * less - 1), 0, LEVEL)
    further = LEVEL + outside / _spread(lower, upper)
    return np.where(outside > 0, further, inner)


def tempered(distribution: Likelihood, trust, units: dict) -> Likelihood:
    """The distribution with parameters that vary less, for `trust` below 1.

        scale' = unit * (scale / unit)^trust
        other' = unit + trust * (other - unit)

    `units` are the values that do not change, by parameter.
    """
    if np.all(np.asarray(trust) == 1):
        return distribution
    ops, values = keras.ops, {}
    for name, unit in units.items():
        value = ops.convert_to_tensor(getattr(distribution, name), "float32")
        unit = ops.convert_to_tensor(np.asarray(unit, "float32"))
        share = ops.convert_to_tensor(np.asarray(trust, "float32"))
        if name == "scale":
            values[name] = unit * ops.power(value / unit, share)
        else:
            values[name] = unit + share * (value - unit)
    return type(distribution)(distribution.prediction, **values)


def checked_targets(y, distribution: Likelihood) -> np.ndarray:
    """Returns finite targets, as float64, one per interval."""
    shape = _targets_shape(distribution)
    if distribution.event_rank and not isinstance(distribution, Quantiles):
        raise ValueError(
            "Intervals are for targets that are numbers; for classes there "
            "is `keras_likelihood.recalibration.Conformal`. Received: "
            f"{type(distribution).__name__}"
        )
    y = as_numbers(y).astype("float64")
    given = y.shape
    # An output of one unit may have an axis for it or not.
    if y.shape in {shape[:-1], (*shape, 1)} and y.size == np.prod(shape):
        y = y.reshape(shape)
    if y.shape != shape or not np.isfinite(y).all():
        raise ValueError(
            f"Targets must be finite and of shape {shape}. "
            f"Received: shape {given}, {(~np.isfinite(y)).sum()} values not "
            "finite"
        )
    return y


def _targets_shape(distribution):
    """The shape of the prediction without the axis of quantile levels."""
    shape = tuple(distribution.prediction.shape)
    return shape[: len(shape) - distribution.event_rank]


def _ends(distribution):
    lower, upper = distribution.interval(LEVEL)
    return _numpy(lower), _numpy(upper)


def _spread(lower, upper):
    # The interval of counts that are nearly always equal may have width 0.
    return np.where(upper > lower, upper - lower, 1.0)


def _numpy(values):
    return keras.ops.convert_to_numpy(values).astype("float64")
