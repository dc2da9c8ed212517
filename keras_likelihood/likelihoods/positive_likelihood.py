"""What likelihoods of positive numbers have in common."""

import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.checks import one_or_nan
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.special import as_mean, smallest
from keras_likelihood.likelihoods.tails import safe_log


class PositiveLikelihood(Likelihood):
    """A distribution of positive numbers whose mean is the prediction.

    With `r = y / prediction`, the target in units of its mean:

        nll(y)      = ratio_nll(log r) + log(prediction)
        cdf(y)      = ratio_cdf(log r)
        quantile(p) = prediction * exp(log_ratio_quantile(p))

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

    def ratio_cdf(self, log_ratio):
        raise NotImplementedError

    def ratio_log_tail(self, log_ratio, upper):
        """`log_tail` of a ratio to the mean, given its logarithm."""
        cdf = self.ratio_cdf(log_ratio)
        return safe_log(ops.where(upper, 1 - cdf, cdf))

    def log_ratio_quantile(self, p):
        """Logarithm of the quantile of the ratio, for p in (0, 1)."""
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
        possible = y >= 0 if self.includes_zero else y > 0
        possible = ops.logical_and(possible, y < math.inf)
        nll = self.ratio_nll(self._log_ratio(y, possible))
        possible = ops.logical_and(possible, self.prediction >= 0)
        return (nll + ops.log(self._mean)) * one_or_nan(possible, nll)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        super().check_targets(y, prediction_shape)
        y = np.asarray(y)
        bound = ">= 0" if cls.includes_zero else "> 0"
        good = (y >= 0 if cls.includes_zero else y > 0) & (y < np.inf)
        cls._refuse_targets(y, ~good, f"finite numbers {bound}")

    def cdf(self, y):
        y = self._check_target(y)
        cdf = self.ratio_cdf(self._log_ratio(y, y > 0))
        return ops.where(y > 0, cdf, ops.zeros_like(cdf))

    def log_tail(self, y, upper):
        y = self._check_target(y)
        tail = self.ratio_log_tail(self._log_ratio(y, y > 0), upper)
        # These are the tails of outcomes at most 0 and above 0.
        end = ops.where(upper, ops.zeros_like(y), safe_log(ops.zeros_like(y)))
        return ops.where(y > 0, tail, end)

    def quantile(self, p):
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        inner = clip(p, 1e-30, 1 - 2.0**-53)
        inside = ops.logical_and(p > 0, inner < 1)
        inner = ops.where(inside, inner, 0.5)
        found = self._mean * ops.exp(self.log_ratio_quantile(inner))
        end = ops.where(p > 0, math.inf, ops.zeros_like(p))
        return ops.where(inside, found, end)

    def sample(self, count=None, seed=None):
        # The interval is open, because 0 and 1 have infinite logarithms.
        uniform = keras.random.uniform(
            self._sample_shape(count), dtype=self.prediction.dtype, seed=seed
        )
        tiny = 2.0**-24
        drawn = self.log_ratio_quantile(clip(uniform, tiny, 1 - tiny))
        return clip(self._mean * ops.exp(drawn), 1e-37, math.inf)

    def mean(self):
        return self.prediction
