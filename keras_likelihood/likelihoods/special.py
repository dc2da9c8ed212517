"""Special functions that `keras.ops` lacks, accurate in float32.

They are differentiable with respect to every argument on every backend.
Log-gammas are computed by Stirling's formula and its remainder, as in Loader,
"Fast and accurate computation of binomial probabilities" (2000).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.gradients import with_gradient
from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_LARGEST_EXPONENT = 40.0


def smallest(x: Tensor) -> float:
    """A number close to the smallest positive number of the dtype of `x`."""
    return 1e-300 if ops.dtype(x) == "float64" else 1e-37


def polynomial(coefficients: Any, v: Tensor) -> tuple[Tensor, Tensor]:
    """A polynomial, from its lowest coefficient on, and its slope."""
    *lower, value = coefficients
    slope = 0.0
    for coefficient in reversed(lower):
        slope = slope * v + value
        value = value * v + coefficient
    return value, slope


def sum_to(x: Tensor, like: Tensor) -> Tensor:
    """Sums `x` over the axes along which `like` was broadcast to it."""
    missing = len(x.shape) - len(like.shape)
    if missing == len(x.shape):
        return ops.sum(x)
    sizes = enumerate(like.shape, start=missing)
    axes = [i for i, size in sizes if size == 1 and x.shape[i] != 1]
    if axes:
        x = ops.sum(x, axis=axes, keepdims=True)
    return ops.sum(x, axis=list(range(missing))) if missing else x


def with_slopes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of `(value, slope by each input)` differentiable.

    The slopes are computed with the value, which is cheaper than automatic
    differentiation. The gradient cannot be differentiated again.
    """

    def forward(*inputs: Tensor) -> Any:
        value, *slopes = function(*inputs)
        return value, (*inputs, *slopes)

    def backward(residuals: Any, upstream: Tensor) -> Any:
        half = len(residuals) // 2
        pairs = zip(residuals[:half], residuals[half:], strict=True)
        return tuple(
            lambda x=x, slope=slope: sum_to(upstream * slope, x)
            for x, slope in pairs
        )

    differentiable = with_gradient(forward, backward)

    @functools.wraps(function)
    def call(*inputs: Tensor) -> Any:
        return differentiable(*inputs)

    return call


def relative_entropy(
    x: Tensor, y: Tensor, difference: Tensor | None = None
) -> Tensor:
    """`x log(x / y) - x + y`, which is 0 at `x = y` and positive elsewhere.

    Near `x = y`, where the three terms cancel, it is computed by a series in
    `(y - x) / (y + x)`. The `difference` is `y - x`, if the caller knows it
    more accurately than from `x >= 0` and `y > 0`.
    """
    difference = y - x if difference is None else difference
    return _relative_entropy(x, y, ops.stop_gradient(difference))


@with_slopes
def _relative_entropy(x: Tensor, y: Tensor, difference: Tensor) -> Any:
    positive = ops.where(x > 0, x, ops.ones_like(x))
    t = difference / positive
    near = ops.logical_and(ops.abs(t) < 0.5, x > 0)
    t = clip(t, -0.6, 0.6)
    v = t / (2 + t)
    v2 = ops.square(v)
    # More terms would be below the dtype's precision: `v2` is below 1 / 9.
    last = 13 if ops.dtype(t) == "float64" else 7
    series = 1 / (2 * last + 3)
    for k in range(last - 1, -1, -1):
        series = series * v2 + 1 / (2 * k + 3)
    close = x * v * (t - 2 * v2 * series)
    log_ratio = ops.log(positive) - ops.log(y)
    value = ops.where(near, close, x * log_ratio + difference)
    by_x = ops.where(near, -2 * v * (1 + v2 * series), log_ratio)
    # `y - x` is known from the other two.
    return value, by_x, difference / y, ops.zeros_like(value)


def _from_eight(
    a: Tensor, moved: Callable[..., Any], series: tuple[float, ...]
) -> Any:
    """An asymptotic series in `1 / a`, from 8 on, and its slope.

    Smaller arguments are moved up by 8 with `G(a + 1) = a G(a)`. The change and
    its slope are `moved(a, a + 8)`.
    """
    small = clip(a, 1e-37, 9.0)
    change, slope = moved(small, small + 8)
    is_small = a < 8
    u = 1 / ops.where(is_small, small + 8, clip(a, 7.0, 1e37))
    u2 = ops.square(u)
    factor, factor_slope = polynomial(series, u2)
    slope = ops.where(is_small, slope, 0.0)
    slope = slope - u2 * (factor + 2 * u2 * factor_slope)
    return ops.where(is_small, change, 0.0) + u * factor, slope


@with_slopes
def stirling_remainder(a: Tensor) -> Any:
    """`log G(a) - (a - 1/2) log(a) + a - log(2 pi) / 2`, for `a > 0`.

    It decreases from infinity at 0 to 0 as `a` grows.
    """

    def moved(a: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        # The product of `a + k` for k from 1 to 7, whose outer pairs are
        # `a * up` and a number.
        pairs, pairs_slope = polynomial(_PAIRS, a * up)
        square = ops.square(up)
        ratio = ops.square(square) * square * up / (pairs * (a + 4))
        log_ratio = ops.log1p(8 / a)
        slope = log_ratio + (7 - 8 * (a + 0.5) / a) / up
        slope = slope - (a + up) * pairs_slope / pairs - 1 / (a + 4)
        return (a + 0.5) * log_ratio + ops.log(ratio) - 8, slope

    return _from_eight(a, moved, _STIRLING)


@with_slopes
def normalizer_excess(a: Tensor) -> Any:
    """`log(a) / 2 + log G(a) - log G(a + 1/2)`, for `a > 0`.

    It decreases to 0 as `a` grows, without a difference of two log-gammas.
    """

    def moved(a: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        # Products of `a + k + 1/2` and `a + k` for k from 0 to 7, whose outer
        # pairs are one number and another number.
        above, above_slope = polynomial(_ABOVE, a * up)
        below, below_slope = polynomial(_BELOW, a * (a + 7))
        slope = (a + up) * above_slope / above + 4 / (a * up)
        slope = slope - (2 * a + 7) * below_slope / below
        return ops.log(above / below) - 0.5 * ops.log1p(8 / a), slope

    return _from_eight(clip(a, 1e-30, math.inf), moved, _HALF_STEP)


_PAIRS = np.poly([-7, -12, -15])[::-1].tolist()
_ABOVE = np.poly([-3.75, -9.75, -13.75, -15.75])[::-1].tolist()
_BELOW = np.poly([0, -6, -10, -12])[::-1].tolist()
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_HALF_STEP = (1 / 8, -1 / 192, 1 / 640, -17 / 14336)


def log_gamma(a: Tensor) -> Tensor:
    """`log G(a)` for `a > 0`."""
    a = clip(a, 1e-37, 1e37)
    return (a - 0.5) * ops.log(a) - a + HALF_LOG_2_PI + stirling_remainder(a)


def bounded_exp(x: Tensor) -> Tensor:
    """`exp(x)` up to 40 and its tangent beyond, to avoid overflow."""
    low = clip(x, -math.inf, _LARGEST_EXPONENT)
    return ops.exp(low) * (1 + ops.relu(x - _LARGEST_EXPONENT))


def floor(x: Tensor) -> Tensor:
    """Floor; on PyTorch and JAX `ops.floor` casts float64 to float32."""
    nearest = ops.round(x)
    return ops.where(nearest > x, nearest - 1, nearest)
