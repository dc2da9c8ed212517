"""The normal likelihood: squared error with a learned scale."""

import keras
from keras import ops

from keras_likelihood.likelihoods.location_scale import SCALE, LocationScale
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI
from keras_likelihood.likelihoods.tails import (
    log_normal_cdf,
    normal_log_quantile,
)


class Normal(LocationScale):
    """Normal distribution with standard deviation `scale`.

        nll(y) = (y - prediction)^2 / (2 scale^2) + log(scale) + log(2 pi) / 2

    At `scale = 1` its gradient is that of half the squared error.

    Args:
        prediction: mean, `(batch, ..., units)`.
        scale: standard deviation, `> 0`. Defaults to 1.
    """

    parameters = (SCALE,)

    def standard_nll(self, z):
        return 0.5 * ops.square(z) + HALF_LOG_2_PI

    def standard_log_cdf(self, z):
        return log_normal_cdf(z)

    def standard_log_quantile(self, log_p):
        return normal_log_quantile(log_p)

    def standard_log_mgf(self, t):
        return 0.5 * ops.square(t)

    def standard_sample(self, shape, seed):
        return self._draw(keras.random.normal, shape, seed=seed)

    def standard_variance(self):
        return 1.0

    def standard_information(self):
        return 1.0

    def scale_exponent(self):
        return 2.0

    def _as_tfp(self, tfp):
        return tfp.Normal(self.prediction, self.scale)
