"""The log-normal likelihood: numbers whose logarithm is normal."""

import math

import keras
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.likelihoods.location_scale import SCALE
from keras_likelihood.likelihoods.positive_likelihood import PositiveLikelihood
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI
from keras_likelihood.likelihoods.tails import (
    log_normal_cdf,
    normal_log_quantile,
)


class LogNormal(PositiveLikelihood):
    """Log-normal distribution of positive numbers.

        nll(y) = z^2 / 2 + log(scale) + log(y) + log(2 pi) / 2
        z      = (log(y / prediction) + scale^2 / 2) / scale

    The prediction is the mean. The median is
    `prediction * exp(-scale^2 / 2)`.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        scale: standard deviation of `log(y)`, `> 0`. Defaults to 1.
    """

    parameters = (SCALE,)

    def _standardize(self, log_ratio):
        return log_ratio / self.scale + 0.5 * self.scale

    def ratio_nll(self, log_ratio):
        z = self._standardize(log_ratio)
        partition = HALF_LOG_2_PI + ops.log(self.scale)
        return 0.5 * ops.square(z) + log_ratio + partition

    def ratio_log_tail(self, log_ratio, upper):
        z = self._standardize(log_ratio)
        return log_normal_cdf(ops.where(upper, -z, z))

    def log_ratio_tail_quantile(self, log_p, upper):
        z = normal_log_quantile(log_p)
        return self.scale * (ops.where(upper, -z, z) - 0.5 * self.scale)

    def sample(self, count=None, seed=None):
        shape = self._sample_shape(count)
        normal = self._draw(keras.random.normal, shape, seed=seed)
        drawn = self.scale * (normal - 0.5 * self.scale)
        return clip(self._mean * ops.exp(drawn), 1e-37, math.inf)

    def variance(self):
        return ops.square(self._mean) * ops.expm1(ops.square(self.scale))

    def information(self):
        return 1 / ops.square(self.scale * self._mean)

    def _as_tfp(self, tfp):
        median = ops.log(self.prediction) - 0.5 * ops.square(self.scale)
        return tfp.LogNormal(median, self.scale)
