"""The gamma likelihood: positive numbers with a constant relative spread."""

import math

import keras
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.probability import tfp_distributions
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.incomplete import gamma_tails
from keras_likelihood.likelihoods.inversion import solve
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.positive_likelihood import PositiveLikelihood
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    bounded_exp,
    smallest,
    stirling_remainder,
)
from keras_likelihood.likelihoods.tails import safe_log


class Gamma(PositiveLikelihood):
    """Gamma distribution of positive numbers, by its mean and its shape.

        nll(y) = shape (r - log(r)) + log(y) - shape log(shape)
                 + log G(shape),    r = y / prediction

    G is the gamma function. The standard deviation is
    `prediction / sqrt(shape)`. At shape 1 it is the exponential distribution.
    Beyond `y = e^40 prediction` the NLL grows with `log(y)` only, to avoid an
    overflow.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        shape: `> 0`. Defaults to 1.
    """

    parameters = (Parameter("shape", ShiftedSoftplus(0.01), initial=1.0),)

    def ratio_nll(self, log_ratio):
        return self.shape * _excess(log_ratio) + log_ratio + self._partition()

    def _partition(self):
        """`log G(shape) - shape log(shape) + shape`."""
        remainder = stirling_remainder(self.shape)
        return remainder + HALF_LOG_2_PI - 0.5 * ops.log(self.shape)

    def ratio_cdf(self, log_ratio):
        return gamma_tails(self.shape, self.shape * bounded_exp(log_ratio))[0]

    def ratio_log_tail(self, log_ratio, upper):
        lower, above = gamma_tails(
            self.shape, self.shape * bounded_exp(log_ratio)
        )
        tail = ops.where(upper, above, lower)
        # If the tail is too small for float32, its density is used instead.
        thin = -self.ratio_nll(log_ratio)
        return ops.where(tail > 1e-30, safe_log(tail), thin)

    def log_ratio_quantile(self, p):
        return _quantile(self.shape, p)

    def sample(self, count=None, seed=None):
        shape = self._sample_shape(count)
        alpha = ops.broadcast_to(clip(self.shape, 0.0, 1e14), shape)
        drawn = keras.random.gamma(
            shape, alpha, dtype=self.prediction.dtype, seed=seed
        )
        return clip(drawn * self._mean / alpha, 1e-37, math.inf)

    def variance(self):
        """`prediction^2 / shape`."""
        return ops.square(self._mean) / self.shape

    def information(self):
        """`shape / prediction^2`."""
        return self.shape / ops.square(self._mean)

    def to_tfp(self):
        return tfp_distributions().Gamma(
            self.shape, self.shape / self.prediction
        )


def _excess(v):
    """`exp(v) - 1 - v`, without loss of digits at small v."""
    u = clip(v, -0.3, 0.3)
    series = 0.0
    for k in range(12, 1, -1):
        series = (series * u + 1) / k
    near = u * u * series
    return ops.where(ops.abs(v) < 0.25, near, bounded_exp(v) - 1 - v)


def _solve(shape, p):
    """Logarithm of the quantile in units of the mean."""

    def tails(v):
        return gamma_tails(shape, shape * bounded_exp(v))

    def density(v):
        remainder = stirling_remainder(shape) + HALF_LOG_2_PI
        remainder = remainder - 0.5 * ops.log(shape)
        return ops.exp(-shape * _excess(v) - remainder)

    # Cantelli's inequality bounds the quantile.
    high = ops.log1p(ops.sqrt(p / ((1 - p) * shape)))
    low = 1 - ops.sqrt((1 - p) / (p * shape))
    low = ops.where(low > 0.5, ops.log(clip(low, 0.5, 1.0)), 0.0)
    low = ops.where(low < 0, low, math.log(smallest(p)))
    return solve(tails, density, p, low, high)


_quantile = compiled(_solve, static=0)
