"""Mixture densities."""

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_likelihood.backend.operations import seed_generator
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods.checks import check_argument, check_size
from keras_likelihood.likelihoods.likelihood import compiled_method
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Wrapper
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.tails import solve, solve_count


class Mixed(Wrapper):
    """A mixture whose components lie on an axis of their own.

        nll(y) = -log sum_j weight_j exp(-nll_j(y))
        cdf(y) = sum_j weight_j cdf_j(y)

    A subclass defines `define`, `inner` (the components, with one axis more
    than the prediction), `log_weights`, which broadcast with the components,
    and `repeated_target` (the targets, repeated for every component).
    """

    components: int
    mixed_axis: ClassVar[int] = -1
    """The axis of the components in their outcomes."""

    def _value(self, name: str) -> Tensor:
        """A parameter with the values of each component on `mixed_axis`."""
        value, k = getattr(self, name), self.components
        own = value.shape[-1] // k
        own = (own, k) if self.mixed_axis == -1 else (k, own)
        return ops.reshape(value, (*ops.shape(value)[:-1], *own))

    def averaged(self, values: Tensor, keepdims: bool = False) -> Tensor:
        """The weighted mean of values of the components."""
        values = ops.exp(self.log_weights(self.mixed_axis)) * values
        return ops.sum(values, axis=self.mixed_axis, keepdims=keepdims)

    def nll(self, y: Tensor) -> Tensor:
        nll = self.inner.nll(self.repeated_target(y))
        axis = self.mixed_axis + self.event_rank
        return -ops.logsumexp(self.log_weights(axis) - nll, axis=axis)

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        return cls.likelihood.is_possible(y, shape)

    @classmethod
    def check_targets(cls, y: Tensor, prediction_shape: Shape) -> None:
        cls.likelihood.check_targets(y, prediction_shape)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        if len(upper.shape):
            upper = ops.expand_dims(upper, self.mixed_axis)
        tails = self.inner.log_tail(self.repeated_target(y), upper)
        log_weights = self.log_weights(self.mixed_axis)
        return ops.logsumexp(log_weights + tails, axis=self.mixed_axis)

    @compiled_method
    def mean(self) -> Tensor:
        return self.averaged(self.inner.mean())

    @compiled_method
    def variance(self) -> Tensor:
        """The mean of the variances plus the variance of the means."""
        return self.averaged(self.inner.variance()) + self.variance_of_means()

    @method()
    def variance_of_means(self) -> Tensor:
        """The variance of the means of the components."""
        means = self.inner.mean()
        centre = self.averaged(means, keepdims=True)
        return self.averaged(ops.square(means - centre))

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        axis = self.mixed_axis + self.event_rank
        seed = seed_generator(seed)
        drawn = self.inner.sample(count, seed)
        uniform = self._uniform(count, seed)
        # Each component owns a part of (0, 1), as long as its weight.
        ends = ops.cumsum(ops.exp(self.log_weights(axis)), axis=axis)
        passed = ops.cast(ops.expand_dims(uniform, axis) > ends, "int32")
        index = ops.sum(passed, axis=axis, keepdims=True)
        index = ops.minimum(index, self.components - 1)
        numbers = ops.arange(self.components, dtype=index.dtype)
        chosen = index == ops.reshape(numbers, (-1,) + (1,) * (-1 - axis))
        if len(chosen.shape) < len(drawn.shape):
            # Outcomes are vectors. Their entries share a component.
            chosen, axis = ops.expand_dims(chosen, -1), axis - 1
        zero = ops.zeros_like(drawn)
        return ops.sum(ops.where(chosen, drawn, zero), axis=axis)

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        log_p = log_p + ops.zeros_like(self.outcomes_like())
        upper = ops.logical_and(upper, ops.ones_like(log_p, dtype="bool"))
        axis, start = self.mixed_axis, None
        if issubclass(self.likelihood, LocationScale):
            # Quantiles of the components would cost an inversion each.
            each = self.inner.typical_outcome()
            start = ops.where(upper, ops.max(each, axis), ops.min(each, axis))
            low, high = -math.inf, math.inf
        else:
            # The quantile lies between the quantiles of the components.
            tails = (ops.expand_dims(x, axis) for x in (log_p, upper))
            each = ops.stop_gradient(self.inner.tail_quantile(*tails))
            low, high = ops.min(each, axis=axis), ops.max(each, axis=axis)

        def log_tail(y: Tensor) -> Tensor:
            return self.log_tail(self.step * y, upper)

        if self.is_discrete:
            ends = ops.round(low / self.step) - 1, ops.round(high / self.step)
            return self.step * solve_count(log_tail, log_p, upper, *ends)
        # Interpolated quantiles have no density, so bisection is used.
        nll = ops.zeros_like if self.event_rank else self.nll
        return solve(log_tail, nll, log_p, upper, low, high, start=start)

    def edges(self) -> Tensor:
        edges = ops.moveaxis(self.inner.edges(), self.mixed_axis, 0)
        shape = tuple(ops.shape(edges))
        return ops.sort(ops.reshape(edges, (-1, *shape[2:])), axis=0)

    def typical_outcome(self) -> Tensor:
        outcome = self.averaged(self.inner.typical_outcome())
        return floor(outcome) if self.is_discrete else outcome


class Mixture(Mixed):
    """A mixture of several distributions of one likelihood.

        nll(y) = -log sum_j weight_j exp(-nll_j(y))

    With a head that predicts the parameters it is a mixture density network
    (Bishop 1994), which can predict multimodal distributions.

    ```python
    several = kl.likelihoods.Mixture("normal", components=3)
    outputs = kl.layers.LikelihoodHead(several, 1)(features)
    ```

    The prediction is the mean of the outcome. Component j lies at
    `prediction + offset_j - sum_i weight_i offset_i`. If outcomes are
    positive, it lies at
    `prediction * exp(offset_j) / sum_i weight_i exp(offset_i)`.

    Args:
        likelihood: a `Likelihood` of numbers or its name.
        components: number of distributions, from 2 to 1000. Defaults to 2.

    The parameters of the resulting class are vectors with `components` values
    per outcome. With one unit they have the shape `(batch, ..., components)`,
    otherwise `(batch, ..., units * components)`.

    - `logit`: the weights are the softmax of the logits. They start equal.
    - `offset`: the locations, which start equally spaced from -1 to 1.
    - the parameters of the likelihood, such as `scale`.
    """

    @classmethod
    def define(cls, likelihood: Any, *, components: int = 2) -> dict[str, Any]:
        inner = cls.require_numbers(likelihood)
        constraint = inner.prediction_constraint
        fits = constraint is None or constraint.high == math.inf
        fits = fits and all(p.size is None for p in inner.parameters)
        allowed = "of real or of positive numbers with scalar parameters"
        check_argument("likelihood", inner.name(), fits, allowed)
        check_size("components", components, 2)
        start = tuple(np.linspace(-1, 1, components).tolist())
        logit = Parameter("logit", Identity(), initial=0.0)
        offset = Parameter("offset", Identity(), initial=start)
        parameters = tuple(
            dataclasses.replace(p, size=components)
            for p in (logit, offset, *inner.parameters)
        )
        return cls.attributes_of(inner) | {
            "components": components,
            "parameters": parameters,
            "support": inner.support,
        }

    @method()
    def log_weights(self, axis: int = -1) -> Tensor:
        return ops.log_softmax(self._value("logit"), axis=-1)

    @property
    def inner(self) -> Any:
        """The components, on an axis after the units."""
        offset, weights = self._value("offset"), self.log_weights()
        mean = self.prediction[..., None]
        if self.prediction_constraint is None:
            centre = ops.sum(ops.exp(weights) * offset, axis=-1, keepdims=True)
            location = mean + (offset - centre)
        else:
            total = ops.logsumexp(weights + offset, axis=-1, keepdims=True)
            location = mean * ops.exp(offset - total)
        return self._around(location)

    def repeated_target(self, y: Tensor) -> Tensor:
        y = y[..., None]
        return ops.broadcast_to(y, (*ops.shape(y)[:-1], self.components))
