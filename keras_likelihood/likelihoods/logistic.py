"""The logistic likelihood: tails between those of normal and Laplace."""

import math

from keras import ops

from keras_likelihood.backend.operations import sin
from keras_likelihood.likelihoods.location_scale import SCALE, LocationScale


class Logistic(LocationScale):
    """Logistic distribution around the prediction.

        nll(y) = z + 2 log(1 + exp(-z)) + log(scale)

    with `z = (y - prediction) / scale`. The standard deviation is
    `scale pi / sqrt(3)`.

    Args:
        prediction: mean and median, `(batch, ..., units)`.
        scale: `> 0`. Defaults to 1.
    """

    parameters = (SCALE,)

    def standard_nll(self, z):
        size = ops.abs(z)
        return size + 2 * ops.log1p(ops.exp(-size))

    def standard_log_cdf(self, z):
        return -ops.softplus(-z)

    def standard_log_quantile(self, log_p):
        return log_p - ops.log1p(-ops.exp(log_p))

    def standard_log_mgf(self, t):
        """`log(pi t / sin(pi t))` for `|t| < 1`."""
        exists = ops.logical_and(ops.abs(t) < 1, t != 0)
        x = math.pi * ops.where(exists, t, 0.5 * ops.ones_like(t))
        found = ops.where(exists, ops.log(x / sin(x)), math.inf)
        return ops.where(t == 0, ops.zeros_like(t), found)

    def standard_variance(self):
        return math.pi**2 / 3

    def standard_information(self):
        return 1 / 3

    def scale_exponent(self):
        return 1.5

    def _as_tfp(self, tfp):
        return tfp.Logistic(self.prediction, self.scale)
