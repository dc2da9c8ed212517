"""Likelihoods of truncated and of rounded targets."""

import math
from typing import Any, ClassVar

from keras import ops

from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.likelihoods import expectations
from keras_likelihood.likelihoods.parametrized import Wrapper
from keras_likelihood.likelihoods.special import floor, smallest
from keras_likelihood.likelihoods.tails import (
    EMPTY,
    log_add,
    log_hazard,
    log_probability,
)


class Truncated(Wrapper):
    """A likelihood truncated to outcomes in `[low, high]`.

        nll(y) = nll of the likelihood + log P(low <= Y <= high)

    The data contain no outcomes outside of the range. If they contain such
    outcomes as values at the limit, use `Censored`.

    ```python
    loss = kl.losses.LikelihoodLoss(Truncated("normal", low=0.0))
    ```

    The prediction is the prediction of the likelihood before truncation.
    `mean` is the mean of the outcomes inside the range.

    Args:
        likelihood: a `Likelihood` of numbers or its name. It needs a `cdf`.
        low, high: ends of the range. `None` (default) means no limit.
    """

    example = "normal,low=0"
    low: ClassVar[float | None]
    high: ClassVar[float | None]
    _range: ClassVar[tuple[float, float]]

    @classmethod
    def define(
        cls, likelihood: Any, *, low: Any = None, high: Any = None
    ) -> dict[str, Any]:
        inner = cls.require_numbers(likelihood)
        start = -math.inf if low is None else float(low)
        end = math.inf if high is None else float(high)
        if not start < end or (start, end) == (-math.inf, math.inf):
            raise ValueError(
                "Truncated needs `low` or `high`, and low < high. "
                f"Received: low={low}, high={high}"
            )
        return {
            **cls.attributes_of(inner),
            "low": start if start > -math.inf else None,
            "high": end if end < math.inf else None,
            "_range": (start, end),
            "allowed": f"in [{start}, {end}]",
        }

    def _ends(self) -> tuple[Tensor, Tensor]:
        """Ends in the prediction's shape, such that outcomes exceed `low`."""
        low, high = self._range
        ones = ops.ones_like(self.prediction)
        return (low - self.is_discrete) * ones, high * ones

    def nll(self, y: Tensor) -> Tensor:
        inner, inside = self.inner, self.is_possible(y)
        possible = ops.where(inside, y, self.typical_outcome())
        nll = inner.nll(possible) + log_probability(inner, *self._ends())
        return self._or_nan(nll, inside)

    @classmethod
    def check_targets(cls, y: Tensor, prediction_shape: Shape) -> None:
        cls.likelihood.check_targets(y, prediction_shape)
        super().check_targets(y, prediction_shape)

    @classmethod
    def is_possible(cls, y: Tensor) -> Any:
        low, high = cls._range
        return (y >= low) & (y <= high)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        low, high = self._ends()
        inner = self.inner
        y = clip(y, low + ops.zeros_like(y), high + ops.zeros_like(y))
        start, end = ops.where(upper, y, low), ops.where(upper, high, y)
        empty = start >= end
        # The whole range is used in place of an empty one.
        start, end = ops.where(empty, low, start), ops.where(empty, high, end)
        share = log_probability(inner, start, end)
        share = share - log_probability(inner, low, high)
        return ops.where(empty, EMPTY, clip(share, -math.inf, 0.0))

    def _solve(self, log_p: Tensor, upper: Tensor) -> Tensor:
        # Use the tail of the likelihood in which the range lies, or the given
        # tail if the range contains the median.
        inner = self.inner
        low, high = self._ends()
        mass = log_probability(inner, low, high)
        below_high = _tail(inner, high, False)
        above_low = _tail(inner, low, True)
        side = ops.where(below_high < math.log(0.5), False, upper)
        side = ops.where(above_low < math.log(0.5), True, side)
        # The tails of the likelihood that end at both ends of the range.
        near = ops.where(side, above_low, below_high)
        beyond = _tail(inner, high, True), _tail(inner, low, False)
        share = log_p + mass
        added = log_add(ops.where(side, *beyond), share)
        rest = near + ops.log1p(-ops.exp(clip(share - near, -math.inf, -1e-7)))
        is_same = ops.logical_not(ops.logical_xor(upper, side))
        found = inner.tail_quantile(ops.where(is_same, added, rest), side)
        if not self.is_discrete:
            is_far, end, sign, rate = self._exponential(mass)
            away = ops.logical_not(ops.logical_xor(upper, sign > 0))
            apart = sign * ops.exp(log_hazard(log_p, away)) / rate
            found = ops.where(is_far, end + apart, found)
        return clip(found, *self._range)

    def _exponential(
        self, mass: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Exponential approximation for a range far from the centre.

        Next to an end of the range it is accurate to four digits, while numbers
        that are not relative to this end lose digits. `mass` is the logarithm
        of the probability of the range. Returns `(is_far, end, sign, rate)`:
        whether the approximation holds, and the density `rate exp(-rate t)` of
        outcomes `end + sign t`, `t > 0`.
        """
        inner, (low, high) = self.inner, self._range
        centre = inner.typical_outcome()
        end = ops.stop_gradient(clip(centre, low, high))
        sign = ops.cast(ops.where(end > centre, 1.0, -1.0), end.dtype)
        nll, (slope,) = value_and_gradient(inner.nll, [end])
        rate = clip(sign * slope, smallest(end), 1e30)
        # The probability of an exponential tail, up to rounding.
        is_far = rate * ops.abs(end - centre) > 1e4
        is_far &= rate * (high - low) > 30
        is_far &= ops.abs(mass + nll + ops.log(rate)) < 0.01 + 1e-6 * nll
        return is_far, end, sign, ops.where(is_far, rate, ops.ones_like(rate))

    def _moments(self) -> tuple[Tensor, Tensor]:
        mean, variance = expectations.moments(self)
        if self.is_discrete:
            return mean, variance
        mass = log_probability(self.inner, *self._ends())
        is_far, end, sign, rate = self._exponential(mass)
        return (
            ops.where(is_far, end + sign / rate, mean),
            ops.where(is_far, 1 / ops.square(rate), variance),
        )

    def typical_outcome(self) -> Tensor:
        return clip(self.inner.typical_outcome(), *self._range)

    def edges(self) -> Tensor:
        edges, inner = super().edges(), self.inner
        if not inner._overrides("edges"):
            return edges
        others = clip(inner.edges(), *self._range)
        return ops.sort(ops.concatenate([edges, others], axis=0), axis=0)


class Rounded(Wrapper):
    """A likelihood for targets rounded to a multiple of `step`.

        nll(y) = -log P(y - step / 2 < Y <= y + step / 2)

    If targets repeat, the scale may shrink to fit them exactly, and the NLL of
    a density is unbounded below. The NLL of a bin is never below 0.

    ```python
    loss = kl.losses.LikelihoodLoss(Rounded("normal", step=0.5))
    ```

    `quantile` and `sample` return grid points. `mean`, `variance` and
    `information` refer to the rounded target.

    Args:
        likelihood: a continuous `Likelihood` of numbers or its name. It needs
            a `cdf`.
        step: distance between grid points, `> 0`. Defaults to 1.
    """

    step: ClassVar[float]

    @classmethod
    def define(cls, likelihood: Any, *, step: Any = 1.0) -> dict[str, Any]:
        inner = cls.require_numbers(likelihood)
        if inner.is_discrete or not 0 < step < float("inf"):
            raise ValueError(
                "Rounded needs a continuous likelihood and a finite step > 0. "
                f"Received: {inner.name()!r}, step={step}"
            )
        own = {"step": float(step), "allowed": f"multiples of {float(step)}"}
        return {**cls.attributes_of(inner), "is_discrete": True, **own}

    def _on_grid(self, y: Tensor) -> Tensor:
        return self.step * ops.round(y / self.step)

    def nll(self, y: Tensor) -> Tensor:
        y = self._on_grid(y)
        half = 0.5 * self.step
        return -log_probability(self.inner, y - half, y + half)

    @classmethod
    def is_possible(cls, y: Tensor) -> Any:
        steps = abs(y / cls.step)
        return abs((steps + 0.5) % 1 - 0.5) < 1e-3 + 1e-6 * steps

    def cdf_below(self, y: Tensor) -> Tensor:
        y = self._on_grid(y)
        return self.inner.cdf(y - 0.5 * self.step)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        y = self.step * floor(y / self.step + 1e-4)
        return self.inner.log_tail(y + 0.5 * self.step, upper)

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        return self._on_grid(self.inner.tail_quantile(log_p, upper))

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        return self._on_grid(self.inner.sample(count, seed))

    def scale_exponent(self) -> Tensor:
        return self.inner.scale_exponent()

    def typical_outcome(self) -> Tensor:
        return self._on_grid(self.inner.typical_outcome())

    def edges(self) -> Tensor:
        return self._on_grid(self.inner.edges())


def _tail(distribution: Any, x: Tensor, upper: Tensor) -> Tensor:
    """`log_tail` at a bound, which may be infinite."""
    is_end = ops.isinf(x)
    finite = ops.where(is_end, distribution.typical_outcome(), x)
    flags = ops.ones_like if upper else ops.zeros_like
    found = distribution.log_tail(finite, flags(finite, dtype="bool"))
    end = ops.where((x > 0) if not upper else (x < 0), 0.0, EMPTY)
    return ops.where(is_end, end, found)
