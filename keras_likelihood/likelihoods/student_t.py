"""Student's t likelihood."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.operations import clip, seed_generator
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.location_scale import SCALE, LocationScale
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    normalizer_excess,
    polynomial,
    with_slopes,
)


class StudentT(LocationScale):
    """Student's t distribution around the prediction.

        nll(y) = (df + 1) / 2 * log(1 + z^2 / df) + log(df pi) / 2
                 + log G(df / 2) - log G((df + 1) / 2) + log(scale)

    with `z = (y - prediction) / scale` and G the gamma function. It is the
    Cauchy distribution at `df = 1` and tends to the normal as `df` grows.

    Args:
        prediction: median, `(batch, ..., units)`.
        df: degrees of freedom, `> 0`. Learned values stay above 1. Defaults
            to 4.
        scale: `> 0`. Defaults to 1.
    """

    parameters = (Parameter("df", Softplus(floor=1.0), initial=4.0), SCALE)

    def standard_nll(self, z: Tensor) -> Tensor:
        return self.prepared_nll()(z)

    def prepared_nll(self) -> Callable[[Tensor], Tensor]:
        log_partition = HALF_LOG_2_PI + normalizer_excess(0.5 * self.df)
        return lambda z: _loss(z, self.df) + log_partition

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        seed = seed_generator(seed)
        # Larger degrees of freedom are equivalent to infinity in float32.
        half_df = clip(0.5 * self.df, 0.0, 1e14)
        normal = self._draw(keras.random.normal, count, seed=seed)
        gamma = self._draw(keras.random.gamma, count, half_df, seed=seed)
        draw = normal * ops.sqrt(half_df / gamma)
        return self.prediction + self.scale * draw

    def standard_variance(self) -> Tensor:
        """`df / (df - 2)`, infinite for df in (1, 2] and NaN up to 1."""
        finite = 1 + 2 / clip(self.df - 2, 1e-30, math.inf)
        variance = ops.where(self.df > 2, finite, math.inf)
        return ops.where(self.df > 1, variance, float("nan"))

    def standard_information(self) -> Tensor:
        return 1 - 2 / (self.df + 3)

    def standard_crps(self, z: Tensor) -> Tensor:
        """Infinite up to df = 1, where the mean does not exist."""
        exists = self.df > 1
        df = ops.where(exists, self.df, 2.0)
        twin = StudentT(ops.zeros_like(z), df=df)
        density = ops.exp(-twin.standard_nll(z))
        centre = z * (2 * twin.standard_cdf(z) - 1)
        tails = 2 * density * (df + ops.square(z)) / (df - 1)
        # With B the beta function, `B(1/2, df - 1/2) / B(1/2, df / 2)^2`.
        excess = normalizer_excess(df - 0.5) - 2 * normalizer_excess(0.5 * df)
        ratio = 0.5 * df * ops.exp(excess) / ops.sqrt(math.pi * (df - 0.5))
        spread = 2 * ops.sqrt(df) / (df - 1) * ratio
        return ops.where(exists, centre + tails - spread, math.inf)

    def scale_exponent(self) -> Tensor:
        return 2 - 6 / (self.df + 5)

    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.prediction, float("nan"))

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.StudentT(self.df, self.prediction, self.scale)


@with_slopes
def _loss(z: Tensor, df: Tensor) -> Any:
    """`(df + 1) / 2 * log(1 + z^2 / df)`, for df up to infinity.

    Small ratios `z^2 / df` may underflow. For these a series corrects
    `z^2 / 2`.
    """
    far = 1e7 if ops.dtype(z) == "float64" else 1e4
    finite_df, inverse_df = clip(df, 0.0, 1e36), 1 / df
    x = z / ops.sqrt(finite_df)
    x2 = ops.square(clip(x, -far, far))
    # Beyond `far` a square could overflow, and 1 + x^2 equals x^2.
    further = clip(ops.abs(x) / far, 1.0, math.inf)
    logarithm = ops.log1p(x2) + 2 * ops.log(further)
    direct = 0.5 * (finite_df + 1) * logarithm

    end = clip(_SMALL * ops.sqrt(df), 0.0, 1e19)
    is_near = ops.abs(z) < end
    z2 = ops.square(clip(z, -end, end))
    series, slope = polynomial(_LOG_SERIES, z2 * inverse_df)
    near_normal = 0.5 * z2 * (1 + inverse_df) * series
    share = 1 / (1 + x2)
    by_z = (1 + inverse_df) * z * share / ops.square(further)
    near_df = inverse_df * (series + (1 + inverse_df) * z2 * slope)
    far_df = logarithm - (1 + inverse_df) * x2 * share
    by_df = ops.where(is_near, -z2 * inverse_df * near_df, far_df)
    return ops.where(is_near, near_normal, direct), by_z, 0.5 * by_df


_SMALL = 0.03
"""The `|z| / sqrt(df)` up to which five terms of the series suffice."""
_LOG_SERIES = (1.0, -1 / 2, 1 / 3, -1 / 4, 1 / 5)
