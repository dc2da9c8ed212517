"""What likelihoods of counts have in common."""

import math

import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.compiled import compiled
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.checks import one_or_nan
from keras_likelihood.likelihoods.inversion import solve_count
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.special import as_mean, floor
from keras_likelihood.likelihoods.tails import safe_log


class CountLikelihood(Likelihood):
    """A distribution of counts 0, 1, 2, ... whose mean is the prediction.

    The prediction must be `>= 0`. Heads make sure of it. A stock model needs
    an activation such as `"softplus"`. The NLL of a negative prediction is
    NaN. A prediction below 1e-15 counts as 1e-15.

    A subclass defines `count_nll`, `count_tails`, `variance`, `information`
    and `sample`.
    """

    is_discrete = True
    prediction_constraint = Softplus(floor=1e-8)

    def count_nll(self, y):
        """NLL of the whole numbers `y >= 0`."""
        raise NotImplementedError

    def count_tails(self, y):
        """`P(Y <= y)` and `P(Y > y)`, for whole numbers `y >= 0`."""
        raise NotImplementedError

    def variance(self):
        """Variance of the outcome; the prediction's shape."""
        raise NotImplementedError

    @property
    def _mean(self):
        return as_mean(self.prediction)

    def nll(self, y):
        """Negative log-likelihood of counts, and NaN for any other `y`."""
        y = self._check_target(y)
        possible = ops.logical_and(y >= 0, floor(y) == y)
        possible = ops.logical_and(possible, y < math.inf)
        nll = self.count_nll(ops.where(possible, y, ops.zeros_like(y)))
        possible = ops.logical_and(possible, self.prediction >= 0)
        return nll * one_or_nan(possible, nll)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        super().check_targets(y, prediction_shape)
        y = np.asarray(y)
        bad = ~((y >= 0) & (np.floor(y) == y) & (y < np.inf))
        cls._refuse_targets(y, bad, "whole numbers >= 0")

    def cdf(self, y):
        """Probability of at most `y`; shape of `y`."""
        return self._tails(floor(self._check_target(y)))[0]

    def log_tail(self, y, upper):
        below, above = self._tails(floor(self._check_target(y)))
        return safe_log(ops.where(upper, above, below))

    def _tails(self, y):
        below, above = self.count_tails(clip(y, 0.0, 1e30))
        below = ops.where(y < 0, ops.zeros_like(below), below)
        return below, ops.where(y < 0, ops.ones_like(above), above)

    def quantile(self, p):
        """The smallest count n with `cdf(n) >= p`."""
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        names = ["prediction", *(q.name for q in self.parameters)]
        tensors = {name: getattr(self, name) for name in names}
        return _quantile(type(self), tensors, p)

    def _solve(self, p):
        inner = clip(p, 1e-30, 1 - 2.0**-53)
        rest = clip(1 - inner, 2.0**-53, 1.0)
        deviation = ops.sqrt(self.variance())
        # Cantelli's inequality bounds every quantile.
        low = self._mean - deviation * ops.sqrt(rest / inner)
        high = self._mean + deviation * ops.sqrt(inner / rest)
        low = clip(floor(low) - 1, -1.0, math.inf)

        def cdf(y):
            return self._tails(y)[0]

        found = solve_count(cdf, inner, low, floor(high) + 2)
        return ops.where(p < 1, found, math.inf)

    def mean(self):
        return self.prediction


def _solve(likelihood, tensors, p):
    density = object.__new__(likelihood)
    vars(density).update(tensors)
    return density._solve(p)


_quantile = compiled(_solve, static=1)
