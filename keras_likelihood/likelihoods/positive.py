"""Likelihoods of positive numbers."""

import math
from typing import Any, ClassVar

import keras
from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.constraints import ShiftedSoftplus, Softplus
from keras_likelihood.likelihoods import special, tails
from keras_likelihood.likelihoods.incomplete import gamma_tails
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.location_scale import SCALE
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI, bounded_exp
from keras_likelihood.likelihoods.tails import solve

SHAPE = Parameter("shape", ShiftedSoftplus(0.01))
_ROOT_HALF = math.sqrt(0.5)


class MeanLikelihood(Likelihood, registered=False):
    """A distribution whose mean is the prediction, `>= 0`.

    A plain Keras model needs an activation such as `"softplus"`. The NLL of a
    negative prediction is NaN.
    """

    prediction_constraint = Softplus(floor=1e-8)

    @property
    def _mean(self) -> Tensor:
        """The prediction, in a range in which gradients do not overflow."""
        return clip(self.prediction, 1e-15, 1e30)

    def mean(self) -> Tensor:
        return self.prediction


class PositiveLikelihood(MeanLikelihood):
    """A distribution of positive numbers whose mean is the prediction.

    With the ratio to the mean `r = y / prediction`:

        nll(y)            = ratio_nll(log r) + log(prediction)
        log_tail(y, ...)  = ratio_log_tail(log r, ...)
        tail_quantile(..) = prediction * exp(log_ratio_tail_quantile(..))

    A subclass defines these three functions of the logarithm of the ratio (the
    last one for tails of at most 1/2), `variance` and `information`.
    """

    support = (0.0, math.inf)
    allowed = "finite numbers > 0"

    def _log_ratio(self, y: Tensor) -> Tensor:
        positive = clip(y, special.smallest(y), math.inf)
        mean = self._mean
        log_ratio = ops.log(positive) - ops.log(mean)
        # A difference of two logarithms loses digits near y = mean.
        is_near = ops.abs(positive - mean) < 0.5 * mean
        apart = ops.where(is_near, positive, mean) - mean
        digits = ops.where(is_near, ops.log1p(apart / mean) - log_ratio, 0.0)
        return log_ratio + ops.stop_gradient(digits)

    def nll(self, y: Tensor) -> Tensor:
        return self.ratio_nll(self._log_ratio(y)) + ops.log(self._mean)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        return self.ratio_log_tail(self._log_ratio(y), upper)

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        log_ratio = self.log_ratio_tail_quantile(log_p, upper)
        return self._mean * ops.exp(log_ratio)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        return clip(super().sample(count, seed), 1e-37, math.inf)


class Gamma(PositiveLikelihood):
    """Gamma distribution of positive numbers, with a mean and a shape.

        nll(y) = shape (r - log(r)) + log(y) - shape log(shape)
                 + log G(shape),    r = y / prediction

    G is the gamma function. The standard deviation is
    `prediction / sqrt(shape)`. At shape 1 it is the exponential distribution.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        shape: `> 0`. Defaults to 1.
    """

    parameters = (SHAPE,)

    def ratio_nll(self, log_ratio: Tensor) -> Tensor:
        # `log G(shape) - shape log(shape) + shape`.
        partition = special.stirling_remainder(self.shape) + HALF_LOG_2_PI
        partition = partition - 0.5 * ops.log(self.shape)
        return self.shape * _excess(log_ratio) + log_ratio + partition

    def ratio_log_tail(self, log_ratio: Tensor, upper: Tensor) -> Tensor:
        ratio = bounded_exp(log_ratio)
        below, above = gamma_tails(self.shape, self.shape * ratio)
        return ops.where(upper, above, below)

    def log_ratio_tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        # Markov's inequality bounds the upper tail.
        spread = ops.log1p(clip(-log_p / self.shape, 0.0, 1e30))
        low, high = math.log(special.smallest(log_p)), 2 + 2 * spread
        start = ops.where(upper, spread, -spread)

        def log_tail(v: Tensor) -> Tensor:
            return self.ratio_log_tail(v, upper)

        def nll(v: Tensor) -> Tensor:
            return self.ratio_nll(v) - v

        return solve(log_tail, nll, log_p, upper, low, high, start=start)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        alpha = clip(self.shape, 0.0, 1e14)
        drawn = self._draw(keras.random.gamma, count, alpha, seed=seed)
        return clip(drawn * self._mean / alpha, 1e-37, math.inf)

    def variance(self) -> Tensor:
        return ops.square(self._mean) / self.shape

    def information(self) -> Tensor:
        return self.shape / ops.square(self._mean)

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Gamma(self.shape, self.shape / self.prediction)


def _excess(v: Tensor) -> Tensor:
    """`exp(v) - 1 - v`, without loss of digits at small v."""
    u = clip(v, -0.3, 0.3)
    series = 0.0
    for k in range(12, 1, -1):
        series = (series * u + 1) / k
    return ops.where(ops.abs(v) < 0.25, u * u * series, bounded_exp(v) - 1 - v)


class LogNormal(PositiveLikelihood):
    """Log-normal distribution of positive numbers.

        nll(y) = z^2 / 2 + log(scale) + log(y) + log(2 pi) / 2
        z      = (log(y / prediction) + scale^2 / 2) / scale

    The prediction is the mean. The median is `prediction * exp(-scale^2 / 2)`.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        scale: standard deviation of `log(y)`, `> 0`. Defaults to 1.
    """

    parameters = (SCALE,)

    def _standardize(self, log_ratio: Tensor) -> Tensor:
        return log_ratio / self.scale + 0.5 * self.scale

    def ratio_nll(self, log_ratio: Tensor) -> Tensor:
        z = self._standardize(log_ratio)
        partition = HALF_LOG_2_PI + ops.log(self.scale)
        return 0.5 * ops.square(z) + log_ratio + partition

    def ratio_log_tail(self, log_ratio: Tensor, upper: Tensor) -> Tensor:
        z = self._standardize(log_ratio)
        return tails.log_normal_cdf(ops.where(upper, -z, z))

    def log_ratio_tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        z = tails.normal_log_quantile(log_p)
        return self.scale * (ops.where(upper, -z, z) - 0.5 * self.scale)

    def variance(self) -> Tensor:
        return ops.square(self._mean) * ops.expm1(ops.square(self.scale))

    def crps(self, y: Tensor) -> Tensor:
        """`y (2 P(z) - 1) - 2 prediction (P(z - scale) + P(scale / r) - 1)`.

        P is the cdf of the standard normal, and `r = sqrt(2)`.
        """
        z = self._standardize(self._log_ratio(y))
        share = ops.erf((z - self.scale) * _ROOT_HALF)
        share = share + ops.erf(0.5 * self.scale)
        return y * ops.erf(z * _ROOT_HALF) - self._mean * share

    def information(self) -> Tensor:
        return 1 / ops.square(self.scale * self._mean)

    def _as_tfp(self, tfp: Any) -> Any:
        median = ops.log(self.prediction) - 0.5 * ops.square(self.scale)
        return tfp.LogNormal(median, self.scale)


class Weibull(PositiveLikelihood):
    """Weibull distribution of positive numbers, with a mean and a shape.

        nll(y) = z^shape - shape log(z) + log(y) - log(shape)

    with `z = y G(1 + 1 / shape) / prediction` and G the gamma function. The
    hazard decreases with time for shapes below 1 and increases above 1. At
    shape 1 it is the exponential distribution.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        shape: `> 0`. Defaults to 1.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (SHAPE,)

    @property
    def _log_scale(self) -> Tensor:
        """Logarithm of the scale in units of the mean."""
        return -special.log_gamma(1 + 1 / self.shape)

    def _log_hazard(self, log_ratio: Tensor) -> Tensor:
        return self.shape * (log_ratio - self._log_scale)

    def ratio_nll(self, log_ratio: Tensor) -> Tensor:
        log_hazard = self._log_hazard(log_ratio)
        excess = bounded_exp(log_hazard) - log_hazard
        return excess + log_ratio - ops.log(self.shape)

    def ratio_log_tail(self, log_ratio: Tensor, upper: Tensor) -> Tensor:
        hazard = bounded_exp(self._log_hazard(log_ratio))
        return ops.where(upper, -hazard, tails.log_one_minus_exp(hazard))

    def log_ratio_tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        return self._log_scale + tails.log_hazard(log_p, upper) / self.shape

    def variance(self) -> Tensor:
        return ops.square(self._mean) * ops.expm1(_log_gap(1 / self.shape))

    def information(self) -> Tensor:
        return ops.square(self.shape / self._mean)

    def _as_tfp(self, tfp: Any) -> Any:
        scale = self.prediction * ops.exp(self._log_scale)
        return tfp.Weibull(self.shape, scale)


class Exponential(Weibull):
    """Exponential distribution of numbers `>= 0`.

        nll(y) = y / prediction + log(prediction)

    It is the Weibull distribution of shape 1.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
    """

    parameters = ()
    shape = 1.0
    _log_scale = 0.0
    allowed = "finite numbers >= 0"

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        return (y >= 0) & (y < math.inf)

    def ratio_nll(self, log_ratio: Tensor) -> Tensor:
        return bounded_exp(log_ratio)

    def variance(self) -> Tensor:
        return ops.square(self._mean)

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Exponential(1 / self.prediction)


def _log_gap(x: Tensor) -> Tensor:
    """`log G(1 + 2 x) - 2 log G(1 + x)`, accurate for small x too.

    For small x it is a series with coefficients `(-1)^k zeta(k) (2^k - 2) / k`.
    """
    near = clip(x, 0.0, 0.2)
    series = 0.0
    for k in range(19, 1, -1):
        zeta = sum(n**-k for n in range(1, 100)) + 99.5 ** (1 - k) / (k - 1)
        series = (series + (-1) ** k * zeta * (2**k - 2) / k) * near
    far = special.log_gamma(1 + 2 * x) - 2 * special.log_gamma(1 + x)
    return ops.where(x < 0.15, series * near, far)
