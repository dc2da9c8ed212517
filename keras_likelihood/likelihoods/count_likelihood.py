"""What likelihoods of counts have in common."""

import math

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.inversion import solve_count
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.special import as_mean, floor
from keras_likelihood.likelihoods.tails import EMPTY


class CountLikelihood(Likelihood):
    """A distribution of counts 0, 1, 2, ... whose mean is the prediction.

    The prediction must be `>= 0`. Heads make sure of it. A stock model needs
    an activation such as `"softplus"`. The NLL of a negative prediction is
    NaN. A prediction below 1e-15 counts as 1e-15.

    A subclass defines `count_nll`, `count_log_tails`, `variance`,
    `information` and `sample`.
    """

    is_discrete = True
    prediction_constraint = Softplus(floor=1e-8)
    allowed = "whole numbers >= 0"

    def count_nll(self, y):
        """NLL of the whole numbers `y >= 0`."""
        raise NotImplementedError

    def count_log_tails(self, y):
        """Logarithms of `P(Y <= y)` and `P(Y > y)`, for whole `y >= 0`."""
        raise NotImplementedError

    @property
    def _mean(self):
        return as_mean(self.prediction)

    def nll(self, y):
        """Negative log-likelihood of counts, and NaN for any other `y`."""
        y = self._check_target(y)
        possible = self.is_possible(y)
        nll = self.count_nll(ops.where(possible, y, ops.zeros_like(y)))
        return self._or_nan(nll, possible & (self.prediction >= 0))

    @classmethod
    def is_possible(cls, y):
        # The remainder of infinity is NaN.
        return (y >= 0) & (y % 1 == 0)

    def log_tail(self, y, upper):
        return self._log_tail(floor(self._check_target(y)), upper)

    def _log_tail(self, y, upper):
        below, above = self.count_log_tails(clip(y, 0.0, 1e30))
        found = ops.where(upper, above, below)
        return ops.where(y < 0, ops.where(upper, 0.0, EMPTY), found)

    def _solve(self, log_p, upper):
        deviation = ops.sqrt(self.variance())
        # Cantelli's inequality bounds the median. The tails are exponential.
        depth = clip(2 - log_p, 0.0, 1e4)
        reach = depth * (deviation + self.variance() / self._mean + 2)
        high = floor(self._mean + deviation + reach) + 2
        low = -1 + ops.zeros_like(high)
        found = solve_count(
            lambda y: self._log_tail(y, upper), log_p, upper, low, high
        )
        is_end = ops.logical_and(upper, log_p == -math.inf)
        return ops.where(is_end, math.inf, found)

    def mean(self):
        return self.prediction
