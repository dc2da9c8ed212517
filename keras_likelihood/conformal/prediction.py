"""Conformal sets and intervals, and their conformity scores."""

import dataclasses
from typing import Any

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal.scores import CalibrationScores
from keras_likelihood.likelihoods import Likelihood, Quantiles
from keras_likelihood.likelihoods.checks import (
    aligned,
    check_argument,
    finite_numbers,
    to_float64,
)
from keras_likelihood.likelihoods.output import distribution_of

SCORES = ("aps", "raps", "lac")

_ROUNDED = 1e-5
"""Maximum relative rounding error of a probability on any backend."""


def class_scores(p: Any, score: str, slack: float = 0.0) -> Any:
    """Scores of all classes. A larger score is a worse fit.

        aps:  probability of the classes likelier than c, minus 1
        raps: aps + 0.01 * max(0, rank of c - 5)
        lac:  -log(probability of c)

    `p` is a NumPy array or a tensor. The score `aps` sums probabilities from
    the least probable class up, so it is accurate even if the most probable
    class has probability 1. `slack` is a relative rounding error of `p`, by
    which scores are reduced.
    """
    xp, is_numpy = _library_of(p), isinstance(p, np.ndarray)
    if score == "lac":
        tiny = float(np.finfo("float32").tiny)
        return -xp.log(xp.maximum(p, tiny)) - slack
    order = xp.argsort(-p, axis=-1, **({"kind": "stable"} if is_numpy else {}))
    falling = xp.flip(xp.take_along_axis(p, order, axis=-1), axis=-1)
    rest = xp.flip(xp.cumsum(falling, axis=-1), axis=-1)
    beyond = np.maximum(np.arange(1, p.shape[-1] + 1) - 5, 0)
    penalties = (1 - slack) * 0.01 * beyond * (score == "raps")
    scores = penalties.astype(keras.backend.standardize_dtype(p.dtype))
    scores = xp.subtract(scores, (1 + slack) * rest)
    return xp.take_along_axis(scores, xp.argsort(order, axis=-1), axis=-1)


def _library_of(p: Any) -> Any:
    return np if isinstance(p, np.ndarray) else keras.ops


def sets_within(p: Any, bound: Any, settings: dict[str, Any]) -> Any:
    """Mask of the classes with scores up to `bound`, `(n, ..., classes)`.

    `p` is a NumPy array or a tensor of this shape. Scores are reduced by the
    rounding error of the probabilities, so equal inputs get equal sets.
    """
    xp = _library_of(p)
    scores = class_scores(p, settings["score"], _ROUNDED)
    limits = np.asarray(bound, keras.backend.standardize_dtype(p.dtype))
    limits = limits if settings["by_class"] else limits[..., None]
    sets = xp.less_equal(scores, limits)
    most = xp.argmax(p, axis=-1)[..., None]
    first = xp.equal(xp.arange(p.shape[-1], dtype=most.dtype), most)
    return xp.logical_or(sets, first)


def both_answers(p: Any) -> Any:
    """Probabilities of all classes, even if `p` only contains class 1."""
    xp = _library_of(p)
    p = p[:, None] if len(p.shape) == 1 else p
    return xp.concatenate([1 - p, p], axis=-1) if p.shape[-1] == 1 else p


def prediction_sets(
    probabilities: Any,
    scores: CalibrationScores,
    settings: dict[str, Any],
    coverage: float,
    groups: Any = None,
) -> Array:
    """Prediction sets of a coverage, booleans `(n, ..., classes)`.

    The probabilities may be of class 1 only, `(n,)` or `(n, ..., 1)`.
    """
    p = both_answers(np.asarray(probabilities, dtype="float64"))
    bound = set_bound(scores, settings, coverage, p.shape, groups)
    return sets_within(p, bound, settings)


def set_bound(
    scores: CalibrationScores,
    settings: dict[str, Any],
    coverage: float,
    shape: tuple[int, ...],
    groups: Any = None,
) -> Array:
    """The bound of sets `(n, ..., classes)`; by class it is `(classes,)`."""
    if not settings["by_class"]:
        return scores.threshold(coverage, groups, shape[0])
    received, allowed = type(groups).__name__, "None, because the groups of "
    allowed += "this calibration are the classes"
    check_argument("groups", received, groups is None, allowed)
    return scores.threshold(coverage, np.arange(shape[-1]), shape[-1])


LEVEL = 0.998
"""Up to this coverage intervals end at quantiles. Beyond it they are widened
in proportion, because a float32 cdf cannot separate targets this far out.
"""

_ROUNDING = 1e-3
"""Relative reduction of the tail probabilities, so that the rounding of a
quantile does not exclude a target of the same score.
"""


@dataclasses.dataclass(frozen=True, eq=False)
class ConformalDistribution:
    """A distribution with intervals calibrated on held-out examples.

    Ranks of scores give calibrated quantiles, but no density: `nll`, `mean` and
    all other methods are those of `distribution`, before calibration.
    """

    distribution: Likelihood
    scores: CalibrationScores
    groups: Any = None

    def interval(self, coverage: float = 0.9) -> tuple[Array, Array]:
        """Interval that contains a new target with the given probability.

        The guarantee holds on average over calibration sets and examples (of
        each group), not for every single example. `(lower, upper)` are NumPy
        arrays of the targets' shape.
        """
        shape = tuple(self.distribution.outcomes_like().shape)
        bound = self.scores.threshold(coverage, self.groups, shape[0])
        lower, upper = interval_within(self.distribution, bound)
        return np.broadcast_to(lower, shape), np.broadcast_to(upper, shape)

    def quantile(self, p: float) -> np.ndarray:
        """The end of the calibrated interval of coverage `abs(1 - 2 p)`."""
        if p == 0.5:
            return to_float64(self.distribution.quantile(p))
        return self.interval(abs(1 - 2 * p))[int(p > 0.5)]


def interval_within(
    distribution: Likelihood, bound: Array, xp: Any = np
) -> tuple[Any, Any]:
    """Bounds of the interval of all targets with scores up to `bound`.

    They are float64 NumPy arrays, or tensors if `xp` is `keras.ops`.
    """
    as_values: Any = to_float64 if xp is np else xp.convert_to_tensor
    tail = 0.5 * (1 - np.minimum(bound, LEVEL)) * (1 - _ROUNDING)
    if tail.size == 1:
        # `interval` computes only one quantile of a symmetric density.
        inner = distribution.interval(1 - 2 * tail.item())
    else:
        dtype = keras.backend.standardize_dtype(distribution.prediction.dtype)
        tail = tail.astype(dtype)
        inner = distribution.quantile(tail), distribution.quantile(1 - tail)
    lower, upper = map(as_values, inner)
    further = np.maximum(bound - LEVEL, 0) * (1 + 1e-6)
    if further.any():
        first, last = map(as_values, distribution.interval(LEVEL))
        spread = xp.where(last > first, last - first, 1.0)
        dtype = keras.backend.standardize_dtype(spread.dtype)
        spread = xp.multiply(spread, further.astype(dtype))
        lower, upper = lower - spread, upper + spread
    return lower, upper


def interval_scores(distribution: Likelihood, y: Any) -> Array:
    """The smallest coverage whose central interval contains each target.

    Beyond a coverage of 0.998 the score grows with the distance from the
    interval of that coverage, in units of its width, so different outliers
    have different scores.
    """
    y = checked_targets(y, distribution)
    dtype = keras.backend.standardize_dtype(distribution.prediction.dtype)
    lower, upper = map(to_float64, distribution.interval(LEVEL))
    outside = np.maximum(lower - y, y - upper)
    within = np.clip(y, lower, upper).astype(dtype)
    less = at_most = to_float64(distribution.cdf(within))
    if distribution.is_discrete:
        less = to_float64(distribution.cdf_below(within))
    inner = np.clip(np.maximum(1 - 2 * at_most, 2 * less - 1), 0, LEVEL)
    # The interval of nearly constant counts may have width 0.
    spread = np.where(upper > lower, upper - lower, 1.0)
    return np.where(outside > 0, LEVEL + outside / spread, inner)


def predicted(output: Tensor, settings: dict[str, Any]) -> Likelihood:
    """The tempered distribution for the output of a calibrated model."""
    kind = likelihoods.get(settings["likelihood"])
    distribution = distribution_of(kind, output)
    return tempered(distribution, settings["trust"], settings["unit"])


def tempered(distribution: Likelihood, trust: Any, unit: Any) -> Likelihood:
    """The distribution with a scale of `unit * (scale / unit)^trust`."""
    if np.all(np.asarray(trust) == 1):
        return distribution
    ops, values = keras.ops, distribution.values()
    scale, unit, trust = (
        ops.convert_to_tensor(value, "float32")
        for value in (values["scale"], unit, trust)
    )
    scale = unit * ops.power(scale / unit, trust)
    missing = len(distribution.prediction.shape) - len(scale.shape)
    scale = ops.reshape(scale, (1,) * missing + scale.shape)
    return type(distribution)(**{**values, "scale": scale})


def checked_targets(y: Any, distribution: Likelihood) -> Array:
    """Returns finite float64 targets, one per interval."""
    shape = tuple(distribution.outcomes_like().shape)
    if distribution.event_rank and not isinstance(distribution, Quantiles):
        raise ValueError(
            "Intervals need numeric targets. For classes, use "
            "`keras_likelihood.conformal.ConformalSets`. Received: "
            f"{type(distribution).__name__}"
        )
    return aligned(finite_numbers(y), [shape], "Targets")
