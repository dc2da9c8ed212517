"""Student's t likelihood: tails as heavy as the data ask for."""

import math

import keras
from keras import ops

from keras_likelihood.backend.probability import tfp_distributions
from keras_likelihood.constraints import ShiftedSoftplus, Softplus
from keras_likelihood.likelihoods.likelihood import Parameter
from keras_likelihood.likelihoods.location_scale import LocationScale


class StudentT(LocationScale):
    """Student's t distribution around the prediction.

        nll(y) = (df + 1) / 2 * log(1 + z^2 / df) + log(df pi) / 2
                 + log G(df / 2) - log G((df + 1) / 2) + log(scale)

    with `z = (y - prediction) / scale` and G the gamma function. It is the
    Cauchy distribution at `df = 1` and tends to the normal as `df` grows.

    Args:
        prediction: median, `(batch, ..., units)`.
        df: degrees of freedom, `> 0`; learned ones stay above 1. Defaults
            to 4.
        scale: `> 0`. Defaults to 1.
    """

    parameters = (
        Parameter("df", Softplus(floor=1.0), initial=4.0),
        Parameter("scale", ShiftedSoftplus(0.01), initial=1.0),
    )

    def standard_nll(self, z):
        return self.prepared_nll()(z)

    def prepared_nll(self):
        log_partition = 0.5 * ops.log(math.pi * self.df) - log_gamma_half_step(
            0.5 * self.df
        )
        power = 0.5 * (self.df + 1)
        return lambda z: (
            power * ops.log1p(ops.square(z) / self.df) + log_partition
        )

    def standard_sample(self, shape, seed):
        seed = keras.random.SeedGenerator(seed)
        dtype = self.prediction.dtype
        half_df = ops.broadcast_to(0.5 * self.df, shape)
        normal = keras.random.normal(shape, dtype=dtype, seed=seed)
        gamma = keras.random.gamma(shape, half_df, dtype=dtype, seed=seed)
        return normal * ops.sqrt(half_df / gamma)

    def mean(self):
        return ops.where(self.df > 1, self.prediction, float("nan"))

    def to_tfp(self):
        return tfp_distributions().StudentT(
            self.df, self.prediction, self.scale
        )


def log_gamma_half_step(a):
    """`log G(a + 1/2) - log G(a)` for a > 0, to full precision.

    Taking the difference of two log-gammas loses all digits of a float32 once
    `a` is large. Instead `a` is moved up by eight through
    `G(a + 1) = a G(a)`, where an asymptotic series in 1/a is exact to 1e-11.
    """
    product = 1.0
    for k in range(8):
        product = product * ((a + k) / (a + k + 0.5))
    u = 1 / (a + 8)
    u2 = ops.square(u)
    series = u * (-1 / 8 + u2 * (1 / 192 + u2 * (-1 / 640 + u2 * 17 / 14336)))
    return ops.log(product) + 0.5 * ops.log(a + 8) + series
