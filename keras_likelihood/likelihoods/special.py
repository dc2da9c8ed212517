"""Special functions that `keras.ops` lacks, accurate in float32.

They are differentiable with respect to every argument on every backend.
Log-gammas are computed by Stirling's formula and its remainder, as in Loader,
"Fast and accurate computation of binomial probabilities" (2000).
"""

import math

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
_LARGEST_EXPONENT = 40.0


def smallest(x: Tensor) -> float:
    """A number close to the smallest positive number of the dtype of `x`."""
    return 1e-300 if ops.dtype(x) == "float64" else 1e-37


def relative_entropy(
    x: Tensor, y: Tensor, difference: Tensor | None = None
) -> Tensor:
    """`x log(x / y) - x + y`, which is 0 at `x = y` and positive elsewhere.

    Near `x = y`, where the three terms cancel, it is computed by a series in
    `(y - x) / (y + x)`. The `difference` is `y - x`, if the caller knows it
    more accurately than from `x >= 0` and `y > 0`.
    """
    if difference is None:
        difference = y - x
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
    far = x * (ops.log(positive) - ops.log(y)) + difference
    return ops.where(near, close, far)


def stirling_remainder(a: Tensor) -> Tensor:
    """`log G(a) - (a - 1/2) log(a) + a - log(2 pi) / 2`, for `a > 0`.

    It decreases from infinity at 0 to 0 as `a` grows. Arguments below 8 are
    moved up by 8 with `G(a + 1) = a G(a)`.
    """
    small = clip(a, 1e-37, 9.0)
    up = small + 8
    # The product of `small + k` for k from 1 to 7, whose outer pairs are
    # `between` and a number.
    between = small * up
    product = (between + 7) * (between + 12) * (between + 15) * (small + 4)
    square = ops.square(up)
    ratio = ops.square(square) * square * up / product
    moved = (small + 0.5) * ops.log1p(8 / small) + ops.log(ratio) - 8
    is_small = a < 8
    moved = ops.where(is_small, moved, ops.zeros_like(moved))
    u = 1 / ops.where(is_small, up, clip(a, 7.0, 1e37))
    u2 = ops.square(u)
    series = 1 / 1260 - u2 * (1 / 1680 - u2 * (1 / 1188 - u2 * (691 / 360360)))
    return moved + u * (1 / 12 - u2 * (1 / 360 - u2 * series))


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
