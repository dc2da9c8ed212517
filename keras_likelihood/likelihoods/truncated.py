"""Targets that can only be seen inside of a range."""

import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.likelihoods.checks import one_or_nan
from keras_likelihood.likelihoods.likelihood import get
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.moments import (
    information_by_quantiles,
    mean_by_quantiles,
)
from keras_likelihood.likelihoods.ranges import log_probability
from keras_likelihood.likelihoods.wrapper import Wrapper


class Truncated(Wrapper):
    """Any likelihood, given that the outcome lies in `[low, high]`.

        nll(y) = nll of the likelihood + log P(low <= Y <= high)

    Outcomes outside of the range are never in the data. If they are in the
    data, as values at the limit, use `Censored`.

    ```python
    loss = kl.losses.LikelihoodLoss(Truncated("normal", low=0.0))
    ```

    The prediction is the prediction of the likelihood without the range.
    `mean` is the mean of the outcomes inside the range.

    Args:
        likelihood: a `Likelihood` of numbers or its name. It needs a `cdf`.
        low, high: ends of the range. `None` (default) means no end.
    """

    @classmethod
    def define(cls, likelihood, *, low=None, high=None):
        inner = get(likelihood)
        cls.require_numbers(inner)
        low = None if low is None else float(low)
        high = None if high is None else float(high)
        ends = (-math.inf if low is None else low,)
        ends += (math.inf if high is None else high,)
        if not ends[0] < ends[1] or ends == (-math.inf, math.inf):
            raise ValueError(
                "Truncated needs `low` or `high`, and low < high. "
                f"Received: low={low}, high={high}"
            )
        return {
            **cls.attributes_of(inner),
            "low": low if ends[0] > -math.inf else None,
            "high": high if ends[1] < math.inf else None,
        }

    @classmethod
    def _range(cls):
        """The ends as numbers, both of them included."""
        low = -math.inf if cls.low is None else cls.low
        return low, math.inf if cls.high is None else cls.high

    def _ends(self):
        """The ends as tensors like the prediction, the lower one excluded."""
        low, high = self._range()
        ones = ops.ones_like(self.prediction)
        return (low - self.is_discrete) * ones, high * ones

    def _inside(self, y):
        low, high = self._range()
        return ops.logical_and(y >= low, y <= high)

    def nll(self, y):
        """Negative log-likelihood of targets in the range, NaN for others."""
        y = self._check_target(y)
        inner = self.inner
        nll = inner.nll(y) + log_probability(inner, *self._ends())
        return nll * one_or_nan(self._inside(y), nll)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        cls.likelihood.check_targets(y, prediction_shape)
        y, (low, high) = np.asarray(y), cls._range()
        cls._refuse_targets(
            y, ~((y >= low) & (y <= high)), f"in [{low}, {high}]"
        )

    def log_tail(self, y, upper):
        low, high = self._ends()
        inner = self.inner
        y = clip(self._check_target(y), *self._range())
        start, end = ops.where(upper, y, low), ops.where(upper, high, y)
        empty = start >= end
        # The whole range is used in place of an empty one.
        start, end = ops.where(empty, low, start), ops.where(empty, high, end)
        share = log_probability(inner, start, end)
        share = share - log_probability(inner, low, high)
        return ops.where(empty, math.log(1e-37), clip(share, -math.inf, 0.0))

    def cdf(self, y):
        y = self._check_target(y)
        below = self.log_tail(y, ops.zeros_like(y, dtype="bool"))
        # Below the range the tail is empty, but its logarithm is finite.
        return ops.where(y < self._range()[0], 0.0, ops.exp(below))

    def quantile(self, p):
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        inner = self.inner
        low, high = self._ends()
        at_low, at_high = (
            ops.where(ops.isfinite(x), ops.exp(_tail(inner, x, False)), end)
            for x, end in ((low, 0.0), (high, 1.0))
        )
        # The probability stays below 1, whose quantile may be infinite.
        share = clip(at_low + p * (at_high - at_low), 0.0, 1 - 2.0**-24)
        found = inner.quantile(share)
        if isinstance(inner, LocationScale):
            # The upper tail is used if it is the more exact one.
            s_low, s_high = (
                ops.where(ops.isfinite(x), ops.exp(_tail(inner, x, True)), end)
                for x, end in ((low, 1.0), (high, 0.0))
            )
            tail = s_low + p * (s_high - s_low)
            mirrored = 2 * inner.prediction - inner.quantile(tail)
            found = ops.where(at_low > 0.5, mirrored, found)
        elif self.low is not None:
            # The range is so far out that almost all probability is at its
            # start.
            found = ops.where(at_low > 1 - 2.0**-20, self.low, found)
        return clip(found, *self._range())

    def sample(self, count=None, seed=None):
        uniform = keras.random.uniform(
            self._sample_shape(count), dtype=self.prediction.dtype, seed=seed
        )
        tiny = 2.0**-24
        return self.quantile(clip(uniform, tiny, 1 - tiny))

    def mean(self):
        return mean_by_quantiles(self)

    def information(self):
        return information_by_quantiles(self)


def _tail(distribution, x, upper):
    """`log_tail` at finite `x`, and at a typical outcome for others."""
    finite = ops.where(ops.isfinite(x), x, distribution.prediction)
    flags = ops.ones_like if upper else ops.zeros_like
    return distribution.log_tail(finite, flags(finite, dtype="bool"))
