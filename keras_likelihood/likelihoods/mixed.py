"""The arithmetic of mixtures of distributions."""

import math
from typing import ClassVar

from keras import ops

from keras_likelihood.likelihoods.inversion import solve, solve_count
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.wrapper import Wrapper


class Mixed(Wrapper):
    """A mixture whose components lie on an axis of their own.

        nll(y) = -log sum_j weight_j exp(-nll_j(y))
        cdf(y) = sum_j weight_j cdf_j(y)

    A subclass defines `define`, `inner` (the components, on one more axis than
    the prediction has), `log_weights`, which broadcast with the components,
    and `repeated_target`, targets once for every component.
    """

    components: int
    mixed_axis: ClassVar[int] = -1
    """The axis of the components among those of their outcomes."""

    def averaged(self, values, keepdims=False):
        """The weighted mean of values of the components."""
        return self._pooled(values, keepdims)

    def _pooled(self, values, keepdims=False):
        values = ops.exp(self.log_weights()) * values
        return ops.sum(values, axis=self.mixed_axis, keepdims=keepdims)

    def nll(self, y):
        nll = self.inner.nll(self.repeated_target(y))
        return -ops.logsumexp(self.log_weights() - nll, axis=self.mixed_axis)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        cls.likelihood.check_targets(y, prediction_shape)

    def cdf(self, y):
        return self._pooled(self.inner.cdf(self.repeated_target(y)))

    def cdf_below(self, y):
        return self._pooled(self.inner.cdf_below(self.repeated_target(y)))

    def log_tail(self, y, upper):
        upper = ops.logical_and(upper, ops.ones_like(y, dtype="bool"))
        tails = self.inner.log_tail(
            self.repeated_target(y), ops.expand_dims(upper, self.mixed_axis)
        )
        return ops.logsumexp(self.log_weights() + tails, axis=self.mixed_axis)

    def mean(self):
        return self.averaged(self.inner.mean())

    def variance(self):
        """The mean of the variances, and the variance of the means."""
        return self.averaged(self.inner.variance()) + self.variance_of_means()

    def variance_of_means(self):
        """The variance of the means of the components."""
        means = self.inner.mean()
        centre = self.averaged(means, keepdims=True)
        return self.averaged(ops.square(means - centre))

    def sample(self, count=None, seed=None):
        axis = self.mixed_axis
        drawn = self.inner.sample(count, seed)
        # Each component gets its own seed.
        other = seed + 1 if isinstance(seed, int) else seed
        uniform = self._uniform(count, other)
        # The component in whose part of (0, 1) the uniform number falls.
        ends = ops.cumsum(ops.exp(self.log_weights()), axis=axis)
        passed = ops.cast(ops.expand_dims(uniform, axis) > ends, "int32")
        index = ops.sum(passed, axis=axis, keepdims=True)
        index = ops.minimum(index, self.components - 1)
        numbers = ops.arange(self.components, dtype=index.dtype)
        numbers = ops.reshape(numbers, (-1,) + (1,) * (-1 - axis))
        chosen = index == numbers
        if len(chosen.shape) < len(drawn.shape):
            # Outcomes are vectors, which are chosen as a whole.
            chosen, axis = ops.expand_dims(chosen, -1), axis - 1
        none = ops.zeros_like(drawn)
        return ops.sum(ops.where(chosen, drawn, none), axis=axis)

    def _solve(self, log_p, upper):
        # It lies between the same quantiles of the components.
        log_p = log_p + ops.zeros_like(self._first_entries())
        upper = ops.logical_and(upper, ops.ones_like(log_p, dtype="bool"))
        axis = self.mixed_axis
        tails = (ops.expand_dims(x, axis) for x in (log_p, upper))
        each = ops.stop_gradient(self.inner.tail_quantile(*tails))
        low, high = ops.min(each, axis=axis), ops.max(each, axis=axis)
        if self.is_discrete:
            step = getattr(self.inner, "step", 1.0)
            return step * solve_count(
                lambda n: self.log_tail(step * n, upper),
                log_p,
                upper,
                ops.round(low / step) - 1,
                ops.round(high / step),
            )
        is_end = log_p == -math.inf
        low, high = (ops.where(is_end, 0.0, end) for end in (low, high))
        found = solve(
            lambda y: self.log_tail(y, upper),
            # Joined quantiles have no density, so that brackets are halved.
            self.nll if not self.event_rank else ops.zeros_like,
            ops.where(is_end, math.log(0.5), log_p),
            upper,
            low,
            high,
        )
        ends = ops.where(upper, ops.max(each, axis), ops.min(each, axis))
        return ops.where(is_end, ends, found)

    def edges(self):
        edges = ops.moveaxis(self.inner.edges(), self.mixed_axis, 0)
        shape = tuple(ops.shape(edges))
        return ops.sort(ops.reshape(edges, (-1, *shape[2:])), axis=0)

    def typical_outcome(self):
        outcome = self.averaged(self.inner.typical_outcome())
        return floor(outcome) if self.is_discrete else outcome
