"""Likelihoods with a location and a scale."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods import quadrature, tails
from keras_likelihood.likelihoods.likelihood import Likelihood, compiled_method
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI

SCALE = Parameter("scale", ShiftedSoftplus(0.01))


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
