"""Likelihoods of truncated and of rounded targets."""

import math
from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parametrized import MappedWrapper, Wrapper
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.tails import log_add, log_probability


class Truncated(Wrapper):
    """A likelihood truncated to outcomes in `[low, high]`.

        nll(y) = nll of the likelihood + log P(low <= Y <= high)

    The data contain no outcomes outside of the range. If they contain such
    outcomes as values at the limit, use `Censored`. The prediction is the
    prediction before truncation, `mean` the mean inside the range.

    ```python
    loss = kl.losses.LikelihoodLoss(Truncated("normal", low=0.0))
    ```

    Args:
        likelihood: a `Likelihood` of numbers or its name. It needs a `cdf`.
        low, high: ends of the range. `None` (default) means no limit.
    """

    example = "normal,low=0"
    low: ClassVar[float | None]
    high: ClassVar[float | None]

    @classmethod
    def define(
        cls, likelihood: Any, *, low: Any = None, high: Any = None
    ) -> dict[str, Any]:
        inner = cls.require_numbers(likelihood)
        start = -math.inf if low is None else float(low)
        end = math.inf if high is None else float(high)
        fits = start < end and (start, end) != (-math.inf, math.inf)
        allowed = "a range with `low` or `high`, and low < high"
        check_argument("low, high", (low, high), fits, allowed)
        least, most = inner.support
        return cls.attributes_of(inner) | {
            "low": start if start > -math.inf else None,
            "high": end if end < math.inf else None,
            "support": (max(start, least), min(end, most)),
            "allowed": f"{inner.allowed}, in [{start}, {end}]",
        }

    def _ends(self) -> tuple[Tensor, Tensor]:
        """Ends in the prediction's shape, such that outcomes exceed `low`."""
        low, high = self.support
        ones = ops.ones_like(self.prediction)
        if self.is_discrete:
            low = low - 0.5 * self.step
        return low * ones, high * ones

    def nll(self, y: Tensor) -> Tensor:
        inner = self.inner
        return inner.nll(y) + log_probability(inner, *self._ends())

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        low, high = cls.support
        inside = (y >= low) & (y <= high)
        return cls.likelihood.is_possible(y, shape) & inside

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        inner, (low, high) = self.inner, self._ends()
        start, end = ops.where(upper, y, low), ops.where(upper, high, y)
        share = log_probability(inner, start, end)
        share = share - log_probability(inner, low, high)
        return clip(share, -math.inf, 0.0)

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        # Use the tail of the likelihood in which the range lies, or the given
        # tail if the range contains the median.
        inner, (low, high) = self.inner, self._ends()
        below_high, above_low = inner.log_cdf(high), inner.log_survival(low)
        side = ops.where(below_high < math.log(0.5), False, upper)
        side = ops.where(above_low < math.log(0.5), True, side)
        near = ops.where(side, above_low, below_high)
        beyond = inner.log_survival(high), inner.log_cdf(low)
        share = log_p + log_probability(inner, low, high)
        added = log_add(ops.where(side, *beyond), share)
        rest = near + ops.log1p(-ops.exp(clip(share - near, -math.inf, -1e-7)))
        tail = ops.where(ops.logical_xor(upper, side), rest, added)
        return clip(inner.tail_quantile(tail, side), *self.support)

    def typical_outcome(self) -> Tensor:
        return clip(self.inner.typical_outcome(), *self.support)

    def edges(self) -> Tensor:
        # Those of a mixture show where its density has narrow parts.
        inner = clip(self.inner.edges(), *self.support)
        return ops.sort(ops.concatenate([super().edges(), inner]), axis=0)


class Rounded(MappedWrapper):
    """A likelihood for targets rounded to a multiple of `step`.

        nll(y) = -log P(y - step / 2 < Y <= y + step / 2)

    If targets repeat, the scale may shrink to fit them exactly, and the NLL of
    a density is unbounded below. The NLL of a bin is never below 0. All methods
    refer to the rounded target.

    ```python
    loss = kl.losses.LikelihoodLoss(Rounded("normal", step=0.5))
    ```

    Args:
        likelihood: a continuous `Likelihood` of numbers or its name. It needs
            a `cdf`.
        step: distance between grid points, `> 0`. Defaults to 1.
    """

    @classmethod
    def define(cls, likelihood: Any, *, step: Any = 1.0) -> dict[str, Any]:
        inner = cls.require_numbers(likelihood)
        fits, allowed = not inner.is_discrete, "a continuous likelihood"
        check_argument("likelihood", inner.name(), fits, allowed)
        check_argument("step", step, 0 < step < math.inf, "a finite step > 0")
        step = float(step)
        ends = tuple(float(step * np.round(x / step)) for x in inner.support)
        return cls.attributes_of(inner) | {
            "is_discrete": True,
            "step": step,
            "support": ends,
            "allowed": f"multiples of {step}",
        }

    def from_inner(self, y: Tensor) -> Tensor:
        return self.step * ops.round(y / self.step)

    def nll(self, y: Tensor) -> Tensor:
        y = self.from_inner(y)
        half = 0.5 * self.step
        return -log_probability(self.inner, y - half, y + half)

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        # Compiled code rounds other numbers.
        return y - y == 0

    @classmethod
    def check_targets(cls, y: Tensor, prediction_shape: Shape) -> None:
        super().check_targets(y, prediction_shape)
        y = cls._as_numbers(y)
        steps = abs(y / cls.step)
        off = abs((steps + 0.5) % 1 - 0.5) >= 1e-3 + 1e-6 * steps
        cls._refuse_targets(y, off, cls.allowed)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        y = self.step * floor(y / self.step + 1e-4)
        return self.inner.log_tail(y + 0.5 * self.step, upper)

    @method()
    def scale_exponent(self) -> Tensor:
        return self.inner.scale_exponent()
