"""Likelihoods of counts."""

import math
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend import operations
from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import AffineSigmoid, Softplus
from keras_likelihood.likelihoods import incomplete
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.likelihood import get
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Wrapper
from keras_likelihood.likelihoods.positive import MeanLikelihood
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.tails import log_add, solve_count


class CountLikelihood(MeanLikelihood):
    """A distribution of counts 0, 1, 2, ... whose mean is the prediction.

    A subclass defines `nll` (of whole `y >= 0`), `count_log_tails` (logs
    of `P(Y <= y)` and `P(Y > y)`), `variance`, `information` and `sample`.
    """

    is_discrete = True
    support = (0.0, math.inf)
    allowed = "whole numbers >= 0"

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        below, above = self.count_log_tails(clip(floor(y), 0.0, 1e30))
        return ops.where(upper, above, below)

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        deviation = ops.sqrt(self.variance())
        # Cantelli's inequality bounds the median. The tails are exponential.
        depth = clip(2 - log_p, 0.0, 1e4)
        reach = depth * (deviation + self.variance() / self._mean + 2)
        high = floor(self._mean + deviation + reach) + 2

        def log_tail(y: Tensor) -> Tensor:
            return self.log_tail(y, upper)

        return solve_count(log_tail, log_p, upper, -ops.ones_like(high), high)


class Poisson(CountLikelihood):
    """Poisson distribution of counts.

        nll(y) = prediction - y log(prediction) + log(y!)

    Without the last term, which does not depend on the prediction, it is
    Keras' `"poisson"` loss.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
    """

    parameters = ()

    def nll(self, y: Tensor) -> Tensor:
        # Up to a factor y it is a gamma density.
        positive = ops.where(y > 0, y, ops.ones_like(y))
        nll = ops.log(positive) - incomplete.log_gamma_density(
            positive, self._mean
        )
        return ops.where(y > 0, nll, self._mean)

    def count_log_tails(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """`P(Y <= y) = P(G > prediction)` with G gamma of shape y + 1."""
        below, above = incomplete.gamma_tails(y + 1, self._mean)
        return above, below

    def variance(self) -> Tensor:
        return self._mean

    def information(self) -> Tensor:
        return 1 / self._mean

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        mean = ops.broadcast_to(self._mean, self._sample_shape(count))
        return operations.draw_poisson(mean, seed)

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.Poisson(self.prediction)


class NegativeBinomial(CountLikelihood):
    """Negative binomial distribution of counts.

        variance = prediction + dispersion * prediction^2
        nll(y)   = (y + r) log(1 + dispersion * prediction)
                   - y log(dispersion * prediction)
                   + log G(r) + log(y!) - log G(y + r)

    Here `r = 1 / dispersion` and G is the gamma function. It is a Poisson
    distribution whose mean follows a gamma distribution, also called NB2.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        dispersion: `> 0`. Values below 1e-12 are raised to it. Defaults to 1.
    """

    parameters = (Parameter("dispersion", Softplus(floor=1e-6), initial=1.0),)

    @property
    def _dispersion(self) -> Tensor:
        return clip(self.dispersion, 1e-12, 1e12)

    def nll(self, y: Tensor) -> Tensor:
        r, odds = 1 / self._dispersion, self._dispersion * self._mean
        # Up to a factor y it is a beta density.
        positive = ops.where(y > 0, y, ops.ones_like(y))
        distance = (positive - self._mean) / (1 + odds)
        above_zero = ops.log(positive) - incomplete.log_beta_density(
            r, positive, 1 / (1 + odds), odds / (1 + odds), distance
        )
        return ops.where(y > 0, above_zero, r * ops.log1p(odds))

    def count_log_tails(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """`P(Y <= y) = P(B <= p)` with B beta of shapes r and y + 1."""
        odds = self._dispersion * self._mean
        return incomplete.beta_tails(
            1 / self._dispersion, y + 1, 1 / (1 + odds), odds / (1 + odds)
        )

    def variance(self) -> Tensor:
        return self._mean * (1 + self._dispersion * self._mean)

    def information(self) -> Tensor:
        return 1 / self.variance()

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        seed, r = operations.seed_generator(seed), 1 / self._dispersion
        gamma = self._draw(keras.random.gamma, count, r, seed=seed)
        return operations.draw_poisson(self._mean * gamma / r, seed)

    def _as_tfp(self, tfp: Any) -> Any:
        odds = self.dispersion * self.prediction
        return tfp.NegativeBinomial(1 / self.dispersion, logits=ops.log(odds))


_ZERO = Parameter(
    "zero_probability", AffineSigmoid(0.0, 1.0), initial=0.1, below=1.0
)


class ZeroInflated(Wrapper, CountLikelihood):
    """Zero-inflated version of a likelihood of counts.

        P(0) = zero_probability + (1 - zero_probability) P_count(0)
        P(y) = (1 - zero_probability) P_count(y)    for y > 0

    The prediction is the mean of all outcomes. The mean without the additional
    zeros is `prediction / (1 - zero_probability)`.

    Args:
        likelihood: a `CountLikelihood` or its name.

    The resulting class takes

        prediction: mean, `>= 0`, `(batch, ..., units)`.
        **parameters: parameters of the likelihood, and `zero_probability` in
            (0, 1), which defaults to 0.1.
    """

    example = "poisson"

    @classmethod
    def define(cls, likelihood: Any) -> dict[str, Any]:
        inner = get(likelihood)
        fits = issubclass(inner, CountLikelihood)
        fits = fits and _ZERO not in inner.parameters
        allowed = "a likelihood of counts, 'poisson' or 'negative_binomial'"
        check_argument("likelihood", inner.name(), fits, allowed)
        parameters = (*inner.parameters, _ZERO)
        return {**cls.attributes_of(inner), "parameters": parameters}

    @property
    def _zero(self) -> Tensor:
        return clip(self.zero_probability, 1e-7, 1 - 1e-6)

    @property
    def inner(self) -> Any:
        """The distribution of the counts without the additional zeros."""
        return self._around(self._mean / (1 - self._zero))

    def nll(self, y: Tensor) -> Tensor:
        inner, zero = self.inner, self._zero
        p = ops.exp(-inner.nll(ops.zeros_like(y)))
        positive = ops.where(y > 0, y, ops.ones_like(y))
        above_zero = inner.nll(positive) - ops.log1p(-zero)
        return ops.where(y > 0, above_zero, -ops.log(zero + (1 - zero) * p))

    def count_log_tails(self, y: Tensor) -> tuple[Tensor, Tensor]:
        below, above = self.inner.count_log_tails(y)
        rest = ops.log1p(-self._zero)
        return log_add(ops.log(self._zero), rest + below), rest + above

    def variance(self) -> Tensor:
        inner = self.inner
        given = inner.variance() + self._zero * ops.square(inner.prediction)
        return (1 - self._zero) * given

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        seed = operations.seed_generator(seed)
        drawn = self.inner.sample(count, seed=seed)
        return ops.where(self._uniform(count, seed) < self._zero, 0.0, drawn)
