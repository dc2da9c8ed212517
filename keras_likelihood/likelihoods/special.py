"""Special functions that `keras.ops` lacks, accurate in float32.

They are differentiable with respect to every argument on every backend.
Log-gammas are computed by Stirling's formula and its remainder, as in Loader,
"Fast and accurate computation of binomial probabilities" (2000).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_likelihood.backend.gradients import with_gradient
from keras_likelihood.backend.operations import clip, in_one_loop
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
    sizes = enumerate(like.shape, start=missing)
    axes = [i for i, size in sizes if size == 1 and x.shape[i] != 1]
    if missing or axes:
        x = in_one_loop(x)
    if missing == len(x.shape):
        return ops.sum(x)
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


def relative_entropy(x: Tensor, y: Tensor, difference: Tensor) -> Any:
    """`x log(x / y) - x + y` and `log(x / y)`, the slope with respect to x.

    It is 0 at `x = y` and positive elsewhere. Near `x = y`, where the three
    terms cancel, it is computed by a series in `v = (y - x) / (y + x)`, as
    `log(x / y) = -2 atanh(v)`. The `difference` is `y - x`, which the caller
    may know more accurately than from `x >= 0` and `y > 0`.
    """
    v = difference / (x + y)
    near = ops.abs(v) < 0.25
    v = clip(v, -0.3, 0.3)
    v2 = ops.square(v)
    # More terms would be below the dtype's precision: `v2` is below 1 / 16.
    last = 11 if ops.dtype(v) == "float64" else 5
    series = 1 / (2 * last + 3)
    for k in range(last - 1, -1, -1):
        series = series * v2 + 1 / (2 * k + 3)
    close = v * (difference - 2 * x * v2 * series)
    positive = ops.where(x > 0, x, ops.ones_like(x))
    log_ratio = ops.log(positive) - ops.log(y)
    value = ops.where(near, close, x * log_ratio + difference)
    return value, ops.where(near, -2 * v * (1 + v2 * series), log_ratio)


def _from_three(
    a: Tensor, change: Tensor, slope: Tensor, series: tuple[float, ...]
) -> Any:
    """`u P(u^2)` with `u = 1 / a`, and its slope, for a from 3 on.

    Smaller arguments are moved up by 3 with `G(a + 1) = a G(a)`, which changes
    the value and its slope by the given numbers.
    """
    is_small = a < 3
    u = 1 / ops.where(is_small, a + 3, clip(a, 2.0, 1e37))
    u2 = ops.square(u)
    factor, factor_slope = polynomial(series, u2)
    slope = ops.where(is_small, slope, 0.0)
    slope = slope - u2 * (factor + 2 * u2 * factor_slope)
    return ops.where(is_small, change, 0.0) + u * factor, slope


def remainder_and_slope(a: Tensor) -> Any:
    """`log G(a) - (a - 1/2) log(a) + a - log(2 pi) / 2`, for `a > 0`.

    It decreases from infinity at 0 to 0 as `a` grows.
    """
    small = clip(a, 1e-37, 4.0)
    up = small + 3
    # `(a + 1) (a + 2)` is `p + 2`.
    p = small * up
    inverse = 1 / (p * (p + 2))
    log_ratio = ops.log1p(3 * up * (p + 2) * inverse)
    change = (small + 0.5) * log_ratio + ops.log(up * up * p * inverse) - 3
    slope = log_ratio - (small + 1.5) * (3 * p + 2) * inverse
    return _from_three(a, change, slope, _STIRLING)


stirling_remainder = with_slopes(remainder_and_slope)


@with_slopes
def normalizer_excess(a: Tensor) -> Any:
    """`log(a) / 2 + log G(a) - log G(a + 1/2)`, for `a > 0`.

    It decreases to 0 as `a` grows, without a difference of two log-gammas.
    """
    small = clip(a, 1e-30, 4.0)
    # `(a + 1) (a + 2)` is `p + 2`, and `(a + 1/2) (a + 5/2)` is `p + 5/4`.
    p = small * (small + 3)
    above, below = (p + 1.25) * (p + 1.25) * (p + 2.25), (p + 2) * (p + 2) * p
    change = 0.5 * ops.log(above / below)
    slope = 2 / (p + 1.25) + 1 / (p + 2.25) - 2 / (p + 2) - 1 / p
    return _from_three(a, change, slope * (small + 1.5), _HALF_STEP)


# By tools/fit_log_gamma.py. Asymptotic series would begin 1/12 - 1/360 u^2 and
# 1/8 - 1/192 u^2. The relative error is below 1e-12.
_STIRLING = (
    0.083333333333319,
    -0.0027777777613135,
    0.00079364761082475,
    -0.00059499854538071,
    0.00083261015354756,
    -0.0017174074866606,
    0.0037003753948205,
    -0.0048802631387458,
)
_HALF_STEP = (
    0.12499999999997,
    -0.0052083333004053,
    0.0015624936344506,
    -0.0011853468006428,
    0.0016635765341325,
    -0.0034338841114286,
    0.0074000303856741,
    -0.0097600242576882,
)


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
