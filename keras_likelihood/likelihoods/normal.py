"""The normal likelihood: squared error with a learned scale."""

import math

import keras
from keras import ops

from keras_likelihood.backend.probability import tfp_distributions
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.tails import (
    log_normal_cdf,
    normal_log_quantile,
)

LOG_PARTITION = 0.5 * math.log(2 * math.pi)


class Normal(LocationScale):
    """Normal distribution with standard deviation `scale`.

        nll(y) = (y - prediction)^2 / (2 scale^2) + log(scale) + log(2 pi) / 2

    At `scale = 1` its gradient is that of half the squared error.

    Args:
        prediction: mean, `(batch, ..., units)`.
        scale: standard deviation, `> 0`. Defaults to 1.
    """

    parameters = (Parameter("scale", ShiftedSoftplus(0.01), initial=1.0),)

    def standard_nll(self, z):
        return 0.5 * ops.square(z) + LOG_PARTITION

    def standard_log_cdf(self, z):
        return log_normal_cdf(z)

    def standard_log_quantile(self, log_p):
        return normal_log_quantile(log_p)

    def standard_log_mgf(self, t):
        return 0.5 * ops.square(t)

    def standard_sample(self, shape, seed):
        return keras.random.normal(
            shape, dtype=self.prediction.dtype, seed=seed
        )

    def standard_variance(self):
        return 1.0

    def standard_information(self):
        return 1.0

    def scale_exponent(self):
        return 2.0

    def to_tfp(self):
        return tfp_distributions().Normal(self.prediction, self.scale)
