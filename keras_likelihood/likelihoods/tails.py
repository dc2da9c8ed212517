"""Logarithms of probabilities of tails, and the numerical inverse of tails."""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_likelihood.backend.gradients import with_gradient
from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.special import floor

_SMALLEST = 1e-37
"""Replaces a probability of 0, which has no logarithm."""
EMPTY = -1e30
"""Logarithm of the probability of an empty tail, finite for gradients."""
_ROOT = math.sqrt(0.5)
_MOST_STEPS = 60


def safe_log(p: Tensor) -> Tensor:
    """`log(p)` of a probability, finite even if p is 0."""
    return ops.log(clip(p, _SMALLEST, math.inf))


def log_normal_cdf(z: Tensor) -> Tensor:
    """Logarithm of the standard normal distribution function."""
    right = ops.log1p(-0.5 * ops.erfc(_ROOT * clip(z, -1.0, math.inf)))
    return ops.where(z > 0, right, _log_left_tail(z))


def _log_left_tail(z: Tensor) -> Tensor:
    """The same for `z <= 0`, by an asymptotic series in `1 / z^2` far out."""
    far = -20.0 if ops.dtype(z) == "float64" else -10.0
    # The bounds lie outside of the selected range, because clipping halves
    # the gradient at a bound.
    near = ops.log(0.5 * ops.erfc(-_ROOT * clip(z, far - 1, 1.0)))
    x = clip(z, -1e15, far + 1)
    u = 1 / ops.square(x)
    series = 1.0
    for factor in (11, 9, 7, 5, 3, 1):
        series = 1 - factor * u * series
    tail = ops.log(series) - ops.log(-x) - 0.5 * math.log(2 * math.pi)
    return ops.where(z > far, near, tail - 0.5 * ops.square(x))


def normal_log_quantile(log_p: Tensor) -> Tensor:
    """The `z <= 0` with `log_normal_cdf(z) = log_p <= log(1/2)`.

    Newton's method starts from formula 26.2.23 of Abramowitz and Stegun. Its
    last step provides the gradient.
    """
    t = ops.sqrt(-2 * ops.stop_gradient(log_p))
    above = 2.515517 + t * (0.802853 + t * 0.010328)
    below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    z = above / below - t
    for _ in range(3 if ops.dtype(log_p) == "float64" else 2):
        z = ops.stop_gradient(z)
        value = _log_left_tail(z)
        slope = ops.exp(-0.5 * z * z - ops.stop_gradient(value))
        z = z - (value - log_p) * math.sqrt(2 * math.pi) / slope
    return z


def log_one_minus_exp(gap: Tensor) -> Tensor:
    """`log(1 - exp(-gap))` for `gap > 0`."""
    small = ops.log(-ops.expm1(-clip(gap, _SMALLEST, 1.0)))
    large = ops.log1p(-ops.exp(-clip(gap, 0.5, math.inf)))
    return ops.where(gap < 0.7, small, large)


def log_add(x: Tensor, y: Tensor) -> Tensor:
    """`log(exp(x) + exp(y))`; `ops.logaddexp` is float32 on PyTorch."""
    return ops.where(x > y, x, y) + ops.log1p(ops.exp(-ops.abs(x - y)))


def both_tails(is_below: Tensor, log_tail: Tensor) -> tuple[Tensor, Tensor]:
    """`(log P(Y <= y), log P(Y > y))` from the smaller of the two."""
    rest = log_one_minus_exp(clip(-log_tail, _SMALLEST, math.inf))
    return (
        ops.where(is_below, log_tail, rest),
        ops.where(is_below, rest, log_tail),
    )


def smaller_tail(log_p: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
    """`(log_p, upper)` of the smaller of the two tails that end at one y."""
    is_large = log_p > math.log(0.5) + 1e-6
    rest = log_one_minus_exp(clip(-log_p, _SMALLEST, math.inf))
    rest = ops.where(log_p < 0, rest, -math.inf)
    return ops.where(is_large, rest, log_p), ops.logical_xor(upper, is_large)


def log_hazard(log_p: Tensor, upper: Tensor) -> Tensor:
    """`log(h)` for a tail of probability `exp(-h)` (upper) or `1 - exp(-h)`."""
    lower = -log_one_minus_exp(clip(-log_p, _SMALLEST, 80.0))
    # A small probability equals its hazard.
    lower = ops.where(log_p < -20, log_p, ops.log(lower))
    return ops.where(upper, ops.log(clip(-log_p, _SMALLEST, math.inf)), lower)


def log_probability(distribution: Any, low: Tensor, high: Tensor) -> Tensor:
    """`log P(low < Y <= high)`, accurate in both tails.

    In a narrow range, where a difference would lose digits, it is density times
    width. Unless `low < high`, only its gradient is meaningful: it is finite.
    """
    typical = distribution.typical_outcome()
    middle = low + 0.5 * (high - low)
    # Without a lower end it is NaN, and the lower tail is used.
    upper = middle > typical
    at_low = distribution.log_tail(low, upper)
    at_high = distribution.log_tail(high, upper)
    wide = ops.where(upper, at_low, at_high)
    gap = wide - ops.where(upper, at_high, at_low)
    # NaN bounds give NaN.
    gap = ops.where(low >= high, ops.ones_like(gap), gap)
    found = wide + log_one_minus_exp(gap)
    if not distribution.is_discrete:
        # Below this limit the rounding error of the gap exceeds the error of
        # density times width, if the density is about constant.
        digits = 1e-15 if ops.dtype(gap) == "float64" else 1e-6
        limit = (digits * (1 + ops.abs(ops.stop_gradient(wide)))) ** (1 / 3)
        narrow = ops.logical_and(low < high, gap < limit)
        density = -distribution.nll(ops.where(narrow, middle, typical))
        change = ops.stop_gradient(distribution.nll(low) + density)
        narrow = ops.logical_and(narrow, ops.abs(change) < 0.5)
        width = ops.where(narrow, high - low, ops.ones_like(low))
        found = ops.where(narrow, density + ops.log(width), found)
    return found


def solve(
    log_tail: Callable[..., Tensor],
    nll: Callable[[Tensor], Tensor],
    log_p: Tensor,
    upper: Tensor,
    low: Tensor,
    high: Tensor,
    start: Tensor | None = None,
) -> Tensor:
    """The value v at which a tail has the probability `exp(log_p)`.

    Newton's method on the logarithm of the tail, inside a shrinking bracket.
    The bracket is bisected if a step would leave it, or if the last step did
    not halve the error: where the tail underflows, Newton steps may be tiny.
    The loop stops when all entries have converged. A further step provides the
    gradient with respect to `log_p` and everything that `log_tail` depends on.

    `log_tail` and `nll` map v to the logarithm of the tail, and to the
    negative logarithm of the density. `low` and `high` are bounds of v. While
    one of them is infinite, steps have a limit that grows.
    """
    fixed = ops.stop_gradient(log_p)
    wide = ops.dtype(log_p) == "float64"
    tolerance = (1e-13 if wide else 1e-6) * (1 + ops.abs(fixed))
    start = 0.5 * (low + high) if start is None else start
    sign = 1 - 2 * ops.cast(upper, ops.dtype(fixed))
    zeros = ops.zeros_like(ops.stop_gradient(fixed + sign + low + high + start))
    low, high, v = (ops.stop_gradient(x + zeros) for x in (low, high, start))
    sign = sign + zeros

    def step(v: Tensor) -> Any:
        value = log_tail(v)
        slope = ops.exp(-ops.stop_gradient(nll(v) + value))
        # An outcome that underflows to 0 may have no density at all.
        slope = ops.where(slope > 1e-30, slope, 1e-30)
        return sign * (value - log_p), clip(slope, 0.0, 1e30)

    def advance(count: Any, v: Any, low: Any, high: Any, *state: Any) -> Any:
        excess, slope = (ops.stop_gradient(x) for x in step(v))
        size, last_size, reach = ops.abs(excess), *state[:2]
        low = ops.where(excess < 0, v, low)
        high = ops.where(excess > 0, v, high)
        is_wide = ops.logical_or(low == -math.inf, high == math.inf)
        first = ops.minimum(size / slope, 1 + ops.abs(v))
        reach = ops.where(reach == 0, first, 8 * reach)
        left = ops.where(is_wide, v - reach, low)
        right = ops.where(is_wide, v + reach, high)
        newton = v - excess / slope
        inside = ops.logical_and(newton > left, newton < right)
        is_good = ops.logical_and(inside, size < 0.5 * last_size)
        outwards = ops.where(excess < 0, right, left)
        middle = ops.where(is_wide, outwards, 0.5 * (low + high))
        moved = ops.where(is_good, newton, middle)
        open_ = ops.logical_and(size > tolerance, ops.abs(moved - v) > 0)
        v = ops.where(open_, moved, v)
        return count + 1, v, low, high, size, reach, ops.any(open_)

    def is_open(count: Any, *state: Any) -> Tensor:
        return ops.logical_and(state[-1], count < _MOST_STEPS)

    state = (0, v, low, high, zeros + math.inf, zeros, ops.any(zeros == 0))
    state = ops.while_loop(is_open, advance, state)
    v = ops.stop_gradient(state[1])
    excess, slope = step(v)
    change = excess / slope
    # Where the density underflows, only the bracket is known.
    far = ops.stop_gradient(ops.abs(change)) > 0.1 * (1 + ops.abs(v))
    return _moved(v, ops.where(far, ops.zeros_like(change), -change))


_moved = with_gradient(
    lambda v, change: (v + 0, ()),
    lambda _, upstream: (lambda: upstream, lambda: upstream),
)
"""`v` with the gradient of `v + change`. Compilers omit an unused change."""


def solve_count(
    log_tail: Any, log_p: Tensor, upper: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """The smallest whole number with `P(Y <= y)` of at least the given value.

    `low` is a whole number that is too small, `high` one that is large enough.
    """
    zeros = ops.zeros_like(ops.stop_gradient(low + high))
    low, high = (ops.stop_gradient(end + zeros) for end in (low, high))

    def halve(count: Any, low: Any, high: Any) -> Any:
        middle = floor(0.5 * (low + high))
        found = log_tail(middle)
        enough = ops.where(upper, found <= log_p, found >= log_p)
        low = ops.where(enough, low, middle)
        return count + 1, low, ops.where(enough, middle, high)

    def is_open(count: Any, low: Any, high: Any) -> Tensor:
        # Beyond the integers that the dtype can represent, middle is an end.
        middle = floor(0.5 * (low + high))
        apart = ops.logical_and(middle > low, middle < high)
        return ops.logical_and(ops.any(apart), count < 2 * _MOST_STEPS)

    return ops.while_loop(is_open, halve, (0, low, high))[2]
