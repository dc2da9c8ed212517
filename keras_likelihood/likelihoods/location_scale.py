"""Likelihoods with a location and a scale."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.operations import clip, seed_generator
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import ShiftedSoftplus, Softplus
from keras_likelihood.likelihoods import quadrature, tails
from keras_likelihood.likelihoods.likelihood import Likelihood, compiled_method
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    normalizer_excess,
    polynomial,
    with_slopes,
)

SCALE = Parameter("scale", ShiftedSoftplus(0.01))
_ROOT = math.sqrt(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


class LocationScale(Likelihood):
    """A symmetric density around the prediction, stretched by `scale`.

    With `z = (y - prediction) / scale`:

        nll(y)      = standard_nll(z) + log(scale)
        cdf(y)      = standard_cdf(z)
        quantile(p) = prediction + scale * standard_log_quantile(log(p))

    A subclass must define `standard_nll`. The other methods are computed from
    it by numerical quadrature, unless the subclass overrides them with closed
    forms, such as `standard_log_cdf`, `standard_log_quantile` and
    `standard_crps`.
    """

    def standard_nll(self, z: Tensor) -> Tensor:
        """NLL of the density with location 0 and scale 1."""
        raise NotImplementedError

    def prepared_nll(self) -> Callable[[Tensor], Tensor]:
        """`standard_nll` with all that does not depend on z computed once."""
        return self.standard_nll

    def standard_cdf(self, z: Tensor) -> Tensor:
        return ops.exp(self.standard_log_cdf(z))

    @compiled_method
    def standard_log_cdf(self, z: Tensor) -> Tensor:
        """Logarithm of the lower tail, accurate at any distance."""
        return quadrature.log_cdf(self.prepared_nll(), z)

    @compiled_method
    def standard_log_quantile(self, log_p: Tensor) -> Tensor:
        """The `z <= 0` with `standard_log_cdf(z) = log_p <= log(1/2)`."""
        return quadrature.log_quantile(self.prepared_nll(), log_p)

    @compiled_method
    def score_moments(self) -> Any:
        """`E[psi^2]`, `E[z psi^3]` and `E[z^2]`, psi = d standard_nll / dz."""
        return quadrature.score_moments(self.prepared_nll(), self.prediction)

    def standard_information(self) -> Tensor:
        return self.score_moments()[0]

    def standard_variance(self) -> Tensor:
        return self.score_moments()[2]

    def scale_exponent(self) -> Tensor:
        """The power of the scale that makes gradients independent of it.

        For residuals that follow this distribution, the expected square of
        `scale^k d nll / d prediction` does not change with the scale, to first
        order, at

            k = 1 + E[z psi psi'] / E[psi^2] = (1 + E[z psi^3] / E[psi^2]) / 2

        It is 2 for the normal and 1 for the Laplace distribution.
        """
        second, third, _ = self.score_moments()
        return 0.5 + 0.5 * third / second

    @method(targets=True)
    def standardize(self, y: Tensor) -> Tensor:
        """`(y - prediction) / scale`."""
        # The gradient of a quotient is expensive if outcomes share one scale,
        # and the gradient of `1 / scale` would overflow at scales below 1e-19.
        inverse = ops.stop_gradient(1 / self.scale)
        return (y - self.prediction) * inverse * (1 / (self.scale * inverse))

    def nll(self, y: Tensor) -> Tensor:
        return self.standard_nll(self.standardize(y)) + ops.log(self.scale)

    def crps(self, y: Tensor) -> Tensor:
        if not hasattr(self, "standard_crps"):
            return super().crps(y)
        return self.scale * self.standard_crps(self.standardize(y))

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        z = self.standardize(y)
        return self.standard_log_cdf(ops.where(upper, -z, z))

    def quantile(self, p: Tensor) -> Tensor:
        return ops.where(p == 0.5, self.prediction, super().quantile(p))

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        z = self.standard_log_quantile(log_p)
        return self.prediction + self.scale * ops.where(upper, -z, z)

    def mean(self) -> Tensor:
        return self.prediction

    def variance(self) -> Tensor:
        """`standard_variance() * scale^2`, in the prediction's shape."""
        each = self.standard_variance() * ops.square(self.scale)
        return ops.broadcast_to(each, ops.shape(self.prediction))

    def information(self) -> Tensor:
        """`standard_information() / scale^2`, in the prediction's shape."""
        each = self.standard_information() / ops.square(self.scale)
        return ops.broadcast_to(each, ops.shape(self.prediction))


class Normal(LocationScale):
    """Normal distribution with standard deviation `scale`.

        nll(y) = (y - prediction)^2 / (2 scale^2) + log(scale) + log(2 pi) / 2

    At `scale = 1` its gradient equals the gradient of half the squared error.

    Args:
        prediction: mean, `(batch, ..., units)`.
        scale: standard deviation, `> 0`. Defaults to 1.
    """

    parameters = (SCALE,)

    def standard_nll(self, z: Tensor) -> Tensor:
        return 0.5 * ops.square(z) + HALF_LOG_2_PI

    def standard_log_cdf(self, z: Tensor) -> Tensor:
        return tails.log_normal_cdf(z)

    def standard_log_quantile(self, log_p: Tensor) -> Tensor:
        return tails.normal_log_quantile(log_p)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        normal = self._draw(keras.random.normal, count, seed=seed)
        return self.prediction + self.scale * normal

    def score_moments(self) -> Any:
        return 1.0, 3.0, 1.0

    def standard_crps(self, z: Tensor) -> Tensor:
        density = ops.exp(-self.standard_nll(z))
        centre = z * ops.erf(z * math.sqrt(0.5))
        return centre + (2 * density - 1 / math.sqrt(math.pi))

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Normal(self.prediction, self.scale)


class Laplace(LocationScale):
    """Laplace distribution with mean absolute deviation `scale`.

        nll(y) = |y - prediction| / scale + log(2 scale)

    At `scale = 1` its gradient equals the gradient of the absolute error.

    Args:
        prediction: mean and median, `(batch, ..., units)`.
        scale: mean absolute deviation, `> 0`. Defaults to 1.
    """

    parameters = (SCALE,)

    def standard_nll(self, z: Tensor) -> Tensor:
        # On JAX the slope of `ops.abs` at 0 is 1. Here it is 0.
        return z * ops.stop_gradient(ops.sign(z)) + math.log(2.0)

    def standard_log_cdf(self, z: Tensor) -> Tensor:
        # The bounds lie outside of the selected range, because clipping halves
        # the gradient at a bound.
        upper = ops.log1p(-0.5 * ops.exp(-clip(z, -0.5, math.inf)))
        return ops.where(z < 0, clip(z, -math.inf, 1.0) - math.log(2.0), upper)

    def standard_log_quantile(self, log_p: Tensor) -> Tensor:
        return log_p + math.log(2.0)

    def score_moments(self) -> Any:
        return 1.0, 1.0, 2.0

    def standard_crps(self, z: Tensor) -> Tensor:
        size = z * ops.stop_gradient(ops.sign(z))
        return size + ops.exp(-size) - 0.75

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Laplace(self.prediction, self.scale)


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

    def standard_nll(self, z: Tensor) -> Tensor:
        size = ops.abs(z)
        return size + 2 * ops.log1p(ops.exp(-size))

    def standard_log_cdf(self, z: Tensor) -> Tensor:
        return -ops.softplus(-z)

    def standard_log_quantile(self, log_p: Tensor) -> Tensor:
        return log_p - ops.log1p(-ops.exp(log_p))

    def standard_crps(self, z: Tensor) -> Tensor:
        return z + 2 * ops.softplus(-z) - 1

    def score_moments(self) -> Any:
        return 1 / 3, 2 / 3, math.pi**2 / 3

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Logistic(self.prediction, self.scale)


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


class Huber(LocationScale):
    """The density whose negative logarithm is Huber's loss.

        nll(y) = rho(z) + log(scale) + log Z(threshold)
        rho(z) = z^2 / 2                              if |z| <= threshold
                 threshold |z| - threshold^2 / 2      otherwise

    with `z = (y - prediction) / scale` and Z the integral of `exp(-rho)`. At
    `scale = 1` its gradient equals the gradient of Keras' `"huber"` loss with
    `delta = threshold`.

    Args:
        prediction: mean and median, `(batch, ..., units)`.
        threshold: where the tails begin, in multiples of the scale, `> 0`.
            Defaults to 1.345, which has 95 % efficiency for normal errors.
        scale: standard deviation of the centre, `> 0`. Defaults to 1.
    """

    parameters = (
        Parameter("threshold", Softplus(floor=1e-3), initial=1.345),
        SCALE,
    )

    @property
    def _threshold(self) -> Tensor:
        # Above 30 the density is normal to float64 precision.
        return clip(self.threshold, 1e-15, 30.0)

    def _masses(self) -> tuple[Tensor, Tensor, Tensor]:
        """Integrals of `exp(-rho)` over the centre, one tail, and all reals."""
        k = self._threshold
        centre = _ROOT * ops.erf(k * _ROOT_HALF)
        tail = ops.exp(-0.5 * k * k) / k
        return centre, tail, centre + 2 * tail

    def standard_nll(self, z: Tensor) -> Tensor:
        k = self._threshold
        inner = clip(z, -k, k)
        return inner * (z - 0.5 * inner) + ops.log(self._masses()[2])

    def standard_log_cdf(self, z: Tensor) -> Tensor:
        k = self._threshold
        _, tail, total = self._masses()
        size = ops.where(z < 0, -z, z)
        far = ops.log(tail) - k * ops.relu(size - k)
        inside = ops.erfc(ops.where(size < k, size, k) * _ROOT_HALF)
        near = tail + 0.5 * _ROOT * (inside - ops.erfc(k * _ROOT_HALF))
        smaller = ops.where(size < k, ops.log(near), far) - ops.log(total)
        return tails.both_tails(z < 0, smaller)[0]

    def standard_log_quantile(self, log_p: Tensor) -> Tensor:
        k = self._threshold
        _, tail, total = self._masses()
        log_mass = log_p + ops.log(total)
        excess = log_mass - ops.log(tail)
        is_far = excess < 0
        inside = (ops.exp(log_mass) - tail) / _ROOT
        inside = clip(inside + 0.5 * ops.erfc(k * _ROOT_HALF), 1e-37, 0.5)
        near = tails.normal_log_quantile(
            ops.log(ops.where(is_far, 0.25, inside))
        )
        return ops.where(is_far, excess / k - k, near)

    def standard_variance(self) -> Tensor:
        centre, tail, total = self._masses()
        moment = centre + 4 * tail * (1 + 1 / ops.square(self._threshold))
        return moment / total

    def standard_information(self) -> Tensor:
        """Probability of the centre, in which the score has slope 1."""
        centre, _, total = self._masses()
        return centre / total

    def scale_exponent(self) -> Tensor:
        centre, tail, _ = self._masses()
        return 2 - 2 * ops.square(self._threshold) * tail / centre
