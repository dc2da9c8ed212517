"""The gamma likelihood: positive numbers with a constant relative spread."""

import math

import keras
from keras import ops

from keras_likelihood.backend.clip import clip
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
        # `log G(shape) - shape log(shape) + shape`.
        partition = stirling_remainder(self.shape) + HALF_LOG_2_PI
        partition = partition - 0.5 * ops.log(self.shape)
        return self.shape * _excess(log_ratio) + log_ratio + partition

    def ratio_log_tail(self, log_ratio, upper):
        ratio = bounded_exp(log_ratio)
        below, above = gamma_tails(self.shape, self.shape * ratio)
        return ops.where(upper, above, below)

    def log_ratio_tail_quantile(self, log_p, upper):
        return self._compiled("_solve_ratio", log_p, upper)

    def _solve_ratio(self, log_p, upper):
        # Markov's inequality bounds the upper tail.
        zeros = ops.zeros_like(log_p + self.shape)
        low = math.log(smallest(log_p)) + zeros
        spread = ops.log1p(clip(-log_p / self.shape, 0.0, 1e30))
        return solve(
            lambda v: self.ratio_log_tail(v, upper),
            lambda v: self.ratio_nll(v) - v,
            log_p,
            upper,
            low,
            2.0 + 2 * spread + zeros,
            start=ops.where(upper, spread, -spread) + zeros,
        )

    def sample(self, count=None, seed=None):
        shape = self._sample_shape(count)
        alpha = ops.broadcast_to(clip(self.shape, 0.0, 1e14), shape)
        drawn = self._draw(keras.random.gamma, shape, alpha, seed=seed)
        return clip(drawn * self._mean / alpha, 1e-37, math.inf)

    def variance(self):
        return ops.square(self._mean) / self.shape

    def information(self):
        return self.shape / ops.square(self._mean)

    def _as_tfp(self, tfp):
        return tfp.Gamma(self.shape, self.shape / self.prediction)


def _excess(v):
    """`exp(v) - 1 - v`, without loss of digits at small v."""
    u = clip(v, -0.3, 0.3)
    series = 0.0
    for k in range(12, 1, -1):
        series = (series * u + 1) / k
    near = u * u * series
    return ops.where(ops.abs(v) < 0.25, near, bounded_exp(v) - 1 - v)
