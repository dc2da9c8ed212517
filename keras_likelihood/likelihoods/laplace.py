"""The Laplace likelihood: absolute error with a learned scale."""

import math

import keras
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.likelihoods.location_scale import SCALE, LocationScale


class Laplace(LocationScale):
    """Laplace distribution with mean absolute deviation `scale`.

        nll(y) = |y - prediction| / scale + log(2 scale)

    At `scale = 1` its gradient is that of the absolute error.

    Args:
        prediction: mean and median, `(batch, ..., units)`.
        scale: mean absolute deviation, `> 0`. Defaults to 1.
    """

    parameters = (SCALE,)

    def standard_nll(self, z):
        # On JAX the slope of `ops.abs` at 0 is 1. Here it is 0.
        return z * ops.stop_gradient(ops.sign(z)) + math.log(2.0)

    def standard_log_cdf(self, z):
        # No selected value equals the bound, because a tie would halve its
        # gradient.
        lower = clip(z, -math.inf, 1.0) - math.log(2.0)
        upper = ops.log1p(-0.5 * ops.exp(-clip(z, -0.5, math.inf)))
        return ops.where(z < 0, lower, upper)

    def standard_log_quantile(self, log_p):
        return log_p + math.log(2.0)

    def standard_log_mgf(self, t):
        """`-log(1 - t^2)` for `|t| < 1`."""
        exists = ops.abs(t) < 1
        square = ops.square(ops.where(exists, t, ops.zeros_like(t)))
        return ops.where(exists, -ops.log1p(-square), math.inf)

    def standard_sample(self, shape, seed):
        # It is the difference of two exponential variables of mean 1.
        uniform = self._draw(keras.random.uniform, (2, *shape), seed=seed)
        exponential = -ops.log1p(-uniform)
        return exponential[0] - exponential[1]

    def standard_variance(self):
        return 2.0

    def standard_information(self):
        return 1.0

    def scale_exponent(self):
        return 1.0

    def _as_tfp(self, tfp):
        return tfp.Laplace(self.prediction, self.scale)
