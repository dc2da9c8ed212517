"""The beta likelihood: shares between 0 and 1."""

import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.probability import tfp_distributions
from keras_likelihood.constraints import AffineSigmoid, ShiftedSoftplus
from keras_likelihood.likelihoods.checks import one_or_nan
from keras_likelihood.likelihoods.incomplete import beta_tails
from keras_likelihood.likelihoods.inversion import solve
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    relative_entropy,
    smallest,
    stirling_remainder,
    trigamma,
)
from keras_likelihood.likelihoods.tails import safe_log

_NEAREST = 2.0**-24
"""Smallest distance of the mean from 1 in float32."""


class Beta(Likelihood):
    """Beta distribution of shares, by its mean and its concentration.

        nll(y) = log B(a, b) - (a - 1) log(y) - (b - 1) log(1 - y)
        a = prediction * concentration,    b = concentration - a

    B is the beta function. The variance is
    `prediction (1 - prediction) / (1 + concentration)`. Targets of exactly 0
    or 1 are not possible. Move them inwards, or use `Bernoulli`, which accepts
    shares too.

    Args:
        prediction: mean, in [0, 1], `(batch, ..., units)`. Heads make sure of
            it. A stock model needs the activation `"sigmoid"`. For any other
            prediction the NLL is NaN.
        concentration: `> 0`. Defaults to 2, which is the uniform distribution
            for the mean 1/2.
    """

    parameters = (
        Parameter("concentration", ShiftedSoftplus(0.01), initial=2.0),
    )
    prediction_constraint = AffineSigmoid(0.0, 1.0)

    def _means(self):
        mean = clip(self.prediction, 1e-15, 1 - _NEAREST)
        return mean, 1 - mean

    def _shapes(self):
        mean, rest = self._means()
        return mean * self.concentration, rest * self.concentration

    def nll(self, y):
        """Negative log-likelihood of shares in (0, 1), and NaN for others."""
        y = self._check_target(y)
        possible = ops.logical_and(y > 0, y < 1)
        y = ops.where(possible, y, 0.5)
        nll = _nll(*self._means(), self.concentration, y, 1 - y)
        nll = nll + ops.log(y) + ops.log1p(-y)
        possible = ops.logical_and(possible, self.prediction >= 0)
        possible = ops.logical_and(possible, self.prediction <= 1)
        return nll * one_or_nan(possible, nll)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        super().check_targets(y, prediction_shape)
        y = np.asarray(y)
        cls._refuse_targets(y, ~((y > 0) & (y < 1)), "strictly between 0 and 1")

    def cdf(self, y):
        return self._tails(y)[0]

    def log_tail(self, y, upper):
        below, above = self._tails(y)
        return safe_log(ops.where(upper, above, below))

    def _tails(self, y):
        y = clip(self._check_target(y), 0.0, 1.0)
        return beta_tails(*self._shapes(), y, 1 - y)

    def quantile(self, p):
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        inner = clip(p, 1e-30, 1 - 2.0**-24)
        mean, rest = self._means()
        found = _quantile(mean, rest, self.concentration, inner)
        return ops.where(p > 0, ops.where(p < 1, found, 1.0), 0.0)

    def sample(self, count=None, seed=None):
        shape = self._sample_shape(count)
        a, b = (ops.broadcast_to(s, shape) for s in self._shapes())
        drawn = keras.random.beta(
            shape, a, b, dtype=self.prediction.dtype, seed=seed
        )
        return clip(drawn, 1e-37, 1 - _NEAREST)

    def mean(self):
        return self.prediction

    def variance(self):
        """`prediction (1 - prediction) / (1 + concentration)`."""
        mean, rest = self._means()
        return mean * rest / (1 + self.concentration)

    def information(self):
        """`concentration^2 (psi'(a) + psi'(b))`, psi' the trigamma."""
        a, b = self._shapes()
        total = trigamma(a) + trigamma(b)
        return ops.square(self.concentration) * total

    def to_tfp(self):
        return tfp_distributions().Beta(*self._shapes())


def _nll(mean, rest, n, y, y_rest):
    """NLL of the log-odds of y. Their density is `y (1 - y)` times as high."""
    a, b = mean * n, rest * n
    # The two differences cancel. Near y = mean each is computed by a series.
    apart = y - mean
    entropy = relative_entropy(mean, y, apart)
    entropy = entropy + relative_entropy(rest, y_rest, -apart)
    remainders = (
        stirling_remainder(a) + stirling_remainder(b) - stirling_remainder(n)
    )
    scale = ops.log(mean) + ops.log(rest) + ops.log(n)
    return n * entropy + remainders - 0.5 * scale + HALF_LOG_2_PI


def _solve(mean, rest, n, p):
    def tails(v):
        return beta_tails(mean * n, rest * n, ops.sigmoid(v), ops.sigmoid(-v))

    def density(v):
        tiny = smallest(v)
        y, y_rest = (clip(ops.sigmoid(s), tiny, 1.0) for s in (v, -v))
        return ops.exp(-_nll(mean, rest, n, y, y_rest))

    # Cantelli's inequality bounds the quantile.
    end = -math.log(smallest(p))
    deviation = ops.sqrt(mean * rest / (1 + n))
    down = deviation * ops.sqrt((1 - p) / p) / mean
    up = deviation * ops.sqrt(p / (1 - p)) / rest
    less, more = clip(down, 0.0, 0.5), clip(up, 0.0, 0.5)
    odds = ops.log(mean) - ops.log(rest)
    low = odds + ops.log1p(-less) - ops.log1p(less * mean / rest)
    high = odds + ops.log1p(more * rest / mean) - ops.log1p(-more)
    low = ops.where(down < 0.5, low, -end)
    high = ops.where(up < 0.5, high, end)
    return ops.sigmoid(solve(tails, density, p, low, high))


_quantile = compiled(_solve, static=0)
