"""The beta likelihood of proportions between 0 and 1."""

import math
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import AffineSigmoid, ShiftedSoftplus
from keras_likelihood.likelihoods.incomplete import beta_tails, log_beta_density
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import smallest
from keras_likelihood.likelihoods.tails import solve

_NEAREST = 2.0**-24
"""Smallest distance of the mean from 1 in float32."""


class Beta(Likelihood):
    """Beta distribution of proportions, with a mean and a concentration.

        nll(y) = log B(a, b) - (a - 1) log(y) - (b - 1) log(1 - y)
        a = prediction * concentration,    b = concentration - a

    B is the beta function. The variance is
    `prediction (1 - prediction) / (1 + concentration)`. Targets must not be
    exactly 0 or 1. Move them inwards, or use `Bernoulli`.

    Args:
        prediction: mean, in [0, 1], `(batch, ..., units)`. A plain Keras model
            needs the activation `"sigmoid"`. Outside the NLL is NaN.
        concentration: `> 0`. Defaults to 2, the uniform distribution if the
            mean is 1/2.
    """

    parameters = (
        Parameter("concentration", ShiftedSoftplus(0.01), initial=2.0),
    )
    prediction_constraint = AffineSigmoid(0.0, 1.0)
    support = (0.0, 1.0)
    allowed = "strictly between 0 and 1"

    def _means(self) -> tuple[Tensor, Tensor]:
        mean = clip(self.prediction, 1e-15, 1 - _NEAREST)
        return mean, 1 - mean

    def _shapes(self) -> tuple[Tensor, Tensor]:
        mean, rest = self._means()
        return mean * self.concentration, rest * self.concentration

    def nll(self, y: Tensor) -> Tensor:
        return ops.log(y) + ops.log1p(-y) + self._log_odds_nll(y, 1 - y)

    def _log_odds_nll(self, y: Tensor, rest: Tensor) -> Tensor:
        """NLL of the log-odds of y, given y and 1 - y."""
        a, b = self._shapes()
        # The difference `b y - a (1 - y)` would be inaccurate near the mean.
        distance = self.concentration * (y - self._means()[0])
        return -log_beta_density(a, b, y, rest, distance)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        below, above = beta_tails(*self._shapes(), y, 1 - y)
        return ops.where(upper, above, below)

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        a, b = self._shapes()
        mean, rest = self._means()

        def log_tail(v: Tensor) -> Tensor:
            below, above = beta_tails(a, b, ops.sigmoid(v), ops.sigmoid(-v))
            return ops.where(upper, above, below)

        def nll(v: Tensor) -> Tensor:
            tiny = smallest(v)
            y, rest = (clip(ops.sigmoid(s), tiny, 1.0) for s in (v, -v))
            return self._log_odds_nll(y, rest)

        end = -math.log(smallest(log_p))
        zeros = ops.zeros_like(log_p + mean)
        log_p = clip(log_p + zeros, -end, 0.0)
        start = clip(ops.log(mean) - ops.log(rest) + zeros, 1.0 - end, end - 1)
        log_odds = solve(log_tail, nll, log_p, upper, -end, end, start=start)
        return ops.sigmoid(log_odds)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        a, b = self._shapes()
        drawn = self._draw(keras.random.beta, count, a, b, seed=seed)
        return clip(drawn, 1e-37, 1 - _NEAREST)

    def mean(self) -> Tensor:
        return self.prediction

    def variance(self) -> Tensor:
        mean, rest = self._means()
        return mean * rest / (1 + self.concentration)

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Beta(*self._shapes())
