"""Logarithms of probabilities, accurate far out in the tails."""

import math
from typing import Any

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor

_SMALLEST = 1e-37
"""Replaces a probability of 0, which has no logarithm."""
EMPTY = -1e30
"""Logarithm of the probability of an empty tail, finite for gradients."""
_ROOT = math.sqrt(0.5)


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
