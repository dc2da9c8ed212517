"""The arithmetic of mixtures of distributions."""

from typing import ClassVar

import keras
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.likelihoods.inversion import solve, solve_count
from keras_likelihood.likelihoods.moments import repeated
from keras_likelihood.likelihoods.wrapper import Wrapper


class Mixed(Wrapper):
    """A mixture whose components lie on an axis of their own.

        nll(y) = -log sum_j weight_j exp(-nll_j(y))
        cdf(y) = sum_j weight_j cdf_j(y)

    A subclass defines `define`, `inner` (the components, on one more axis than
    the prediction has), `log_weights` and `repeated_target`.
    """

    components: int
    mixed_axis: ClassVar[int] = -1
    """The axis of the components among those of their outcomes."""

    def log_weights(self):
        """Logarithms of the weights; broadcasts with the components."""
        raise NotImplementedError

    def repeated_target(self, y):
        """Targets once for every component."""
        raise NotImplementedError

    def averaged(self, values, keepdims=False):
        """The weighted mean of values of the components."""
        weights = ops.exp(self.log_weights())
        axis = self.mixed_axis
        return ops.sum(weights * values, axis=axis, keepdims=keepdims)

    def nll(self, y):
        nll = self.inner.nll(self.repeated_target(y))
        return -ops.logsumexp(self.log_weights() - nll, axis=self.mixed_axis)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        cls.likelihood.check_targets(y, prediction_shape)

    def cdf(self, y):
        return self.averaged(self.inner.cdf(self.repeated_target(y)))

    def cdf_below(self, y):
        return self.averaged(self.inner.cdf_below(self.repeated_target(y)))

    def log_tail(self, y, upper):
        upper = ops.logical_and(upper, ops.ones_like(y, dtype="bool"))
        tails = self.inner.log_tail(
            self.repeated_target(y), ops.expand_dims(upper, self.mixed_axis)
        )
        return ops.logsumexp(self.log_weights() + tails, axis=self.mixed_axis)

    def mean(self):
        """The mean of the components' means."""
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
        shape = self._sample_shape(count)
        uniform = keras.random.uniform(
            shape[: len(shape) - self.event_rank],
            dtype=self.prediction.dtype,
            # Each component gets its own seed.
            seed=seed + 1 if isinstance(seed, int) else seed,
        )
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

    def quantile(self, p):
        """The value below which a fraction `p` of outcomes falls.

        It is found by bisection between the quantiles of the components.
        """
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        names = ["prediction", *(q.name for q in self.parameters)]
        tensors = {name: getattr(self, name) for name in names}
        return _quantile(type(self), tensors, p)

    def _solve(self, p):
        like = self.prediction[..., 0] if self.event_rank else self.prediction
        p = p + ops.zeros_like(like)
        each = self.inner.quantile(ops.expand_dims(p, self.mixed_axis))
        each = ops.stop_gradient(each)
        low = ops.min(each, axis=self.mixed_axis)
        high = ops.max(each, axis=self.mixed_axis)
        if self.event_rank:
            return solve(self._tails_by_cdf, _no_slope, p, low, high)
        every = repeated(self, p)
        if self.is_discrete:
            return solve_count(every.cdf, p, low - 1, high)
        return solve(
            lambda y: (
                ops.exp(every.log_cdf(y)),
                ops.exp(every.log_survival(y)),
            ),
            lambda y: ops.exp(-every.nll(y)),
            p,
            low,
            high,
        )

    def _tails_by_cdf(self, y):
        cdf = self.cdf(y)
        return cdf, 1 - cdf


def _no_slope(y):
    """Replaces an unknown density, so that `solve` only uses bisection."""
    return ops.full_like(y, 1e30)


def _solve(likelihood, tensors, p):
    density = object.__new__(likelihood)
    vars(density).update(tensors)
    return density._solve(p)


_quantile = compiled(_solve, static=1)
