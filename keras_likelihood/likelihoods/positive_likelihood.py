"""What likelihoods of positive numbers have in common."""

import math

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.special import as_mean, smallest
from keras_likelihood.likelihoods.tails import EMPTY, smaller_tail


class PositiveLikelihood(Likelihood):
    """A distribution of positive numbers whose mean is the prediction.

    With `r = y / prediction`, the target in units of its mean:

        nll(y)            = ratio_nll(log r) + log(prediction)
        log_tail(y, ...)  = ratio_log_tail(log r, ...)
        tail_quantile(..) = prediction * exp(log_ratio_tail_quantile(..))

    The prediction must be `>= 0`. Heads make sure of it. A stock model needs
    an activation such as `"softplus"`. The NLL of a negative prediction is
    NaN. A prediction below 1e-15 counts as 1e-15.

    A subclass defines the three functions of the ratio and `information`.
    """

    prediction_constraint = Softplus(floor=1e-8)
    includes_zero = False
    """Whether an outcome of exactly 0 is possible."""

    def ratio_nll(self, log_ratio):
        """NLL of a ratio to the mean, given its logarithm."""
        raise NotImplementedError

    def ratio_log_tail(self, log_ratio, upper):
        """`log_tail` of a ratio to the mean, given its logarithm."""
        raise NotImplementedError

    def log_ratio_tail_quantile(self, log_p, upper):
        """Logarithm of the ratio at which a tail of at most 1/2 ends."""
        raise NotImplementedError

    @property
    def _mean(self):
        return as_mean(self.prediction)

    def _log_ratio(self, y, possible):
        positive = ops.where(possible, y, self._mean)
        positive = clip(positive, smallest(y), math.inf)
        mean = self._mean
        log_ratio = ops.log(positive) - ops.log(mean)
        # A difference of two logarithms is not exact near y = mean.
        is_near = ops.abs(positive - mean) < 0.5 * mean
        apart = ops.where(is_near, positive, mean) - mean
        digits = ops.where(is_near, ops.log1p(apart / mean) - log_ratio, 0.0)
        return log_ratio + ops.stop_gradient(digits)

    def nll(self, y):
        """Negative log-likelihood of numbers `> 0`, and NaN for others."""
        y = self._check_target(y)
        possible = self.is_possible(y)
        nll = self.ratio_nll(self._log_ratio(y, possible))
        possible = possible & (self.prediction >= 0)
        return self._or_nan(nll + ops.log(self._mean), possible)

    @classmethod
    def is_possible(cls, y):
        return (y >= 0 if cls.includes_zero else y > 0) & (y < math.inf)

    @classmethod
    def allowed_targets(cls):
        return f"finite numbers {'>= 0' if cls.includes_zero else '> 0'}"

    def log_tail(self, y, upper):
        y = self._check_target(y)
        tail = self.ratio_log_tail(self._log_ratio(y, ~(y <= 0)), upper)
        # These are the tails of outcomes at most 0 and above 0.
        end = ops.where(upper, 0.0, EMPTY)
        return ops.where(y <= 0, end, tail)

    def tail_quantile(self, log_p, upper):
        log_p, upper = smaller_tail(log_p, upper)
        is_end = log_p == -math.inf
        inner = ops.where(is_end, math.log(0.5), log_p)
        ratio = ops.exp(self.log_ratio_tail_quantile(inner, upper))
        end = ops.where(upper, math.inf, ops.zeros_like(log_p))
        return ops.where(is_end, end, self._mean * ratio)

    def sample(self, count=None, seed=None):
        return clip(super().sample(count, seed), 1e-37, math.inf)

    def mean(self):
        return self.prediction
