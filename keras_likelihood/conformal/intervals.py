"""Intervals within a bound of the scores, of distributions and of models."""

import dataclasses
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.conformal.scores import CalibrationScores, scores_of
from keras_likelihood.likelihoods import Likelihood, Quantiles
from keras_likelihood.likelihoods.checks import (
    aligned,
    finite_numbers,
    to_float64,
)
from keras_likelihood.likelihoods.output import distribution_of
from keras_likelihood.serving import RecalibratedRegressor

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

    Ranks of scores give calibrated quantiles, but no density: all other methods
    are those of `distribution`, before calibration.
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
    """Bounds of all targets with scores up to `bound`, arrays or tensors."""
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

    Beyond a coverage of 0.998 the score grows with the distance from that
    interval, in units of its width, so different outliers differ.
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
    values = distribution.values()
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


@serializable
class ConformalInterval(keras.Layer):
    """Calibrated intervals up to a bound of the scores."""

    def __init__(self, bound: Any, settings: dict[str, Any], **kwargs: Any):
        super().__init__(**kwargs)
        self.bound, self.settings = np.asarray(bound), dict(settings)

    def call(self, inputs: Tensor) -> dict[str, Tensor]:
        found = predicted(inputs, self.settings)
        lower, upper = interval_within(found, self.bound, ops)
        return {"prediction": found.prediction, "lower": lower, "upper": upper}


@serializable
class ConformalRegressor(RecalibratedRegressor):
    """A Keras model with calibrated intervals.

    `kl.conformal.ConformalIntervals` creates it. It has the outputs of
    the calibrated model: the prediction and the parameters of its likelihood.

    ```python
    model = keras.saving.load_model("conformal.keras")
    lower, upper = model.interval(x, 0.9)
    ```
    """

    def predict_distribution(
        self, x: Any, *, groups: Any = None, **kwargs: Any
    ) -> ConformalDistribution:
        """The predicted distribution for `x`, with a calibrated `interval`."""
        scores = scores_of(self)
        output = self.predict(x, **{"verbose": 0, **kwargs})
        found = predicted(output, scores.settings).as_numpy()
        return ConformalDistribution(found, scores, groups)

    def at_coverage(self, coverage: float = 0.9) -> keras.Model:
        """A Keras model with the outputs `prediction`, `lower` and `upper`.

        The calibration is part of the graph and is exported with it:
        `model.at_coverage(0.9).export("served")`.
        """
        scores = scores_of(self)
        bound = scores.threshold(coverage).tolist()
        interval = ConformalInterval(bound, scores.settings)
        return keras.Model(self.input, interval(self.output))
