"""The normal likelihood: squared error with its scale set free."""

import math

import keras
from keras import ops

from keras_likelihood.backend.probability import tfp_distributions
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.likelihood import Parameter
from keras_likelihood.likelihoods.location_scale import LocationScale


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
        return 0.5 * ops.square(z) + 0.5 * math.log(2 * math.pi)

    def standard_cdf(self, z):
        return 0.5 * ops.erfc(-z * math.sqrt(0.5))

    def standard_quantile(self, p):
        return math.sqrt(2) * ops.erfinv(2 * p - 1)

    def standard_sample(self, shape, seed):
        return keras.random.normal(
            shape, dtype=self.prediction.dtype, seed=seed
        )

    def to_tfp(self):
        return tfp_distributions().Normal(self.prediction, self.scale)
