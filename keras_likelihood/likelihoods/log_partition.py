"""The log-normalizer of the rho density, its slope, and two moments.

The slope of log Z is unbounded at shape 2, where log Z behaves like `(shape -
2) log|shape - 2|`. So the functions are fitted on intervals of shapes. On each
of them t increases from 0 at shape 0 or 2, and with `l = log(t)` a function is

    c + m G(v) + t l (Q(v) + t l R(v))

with polynomials G, Q and R. Around 2 it is `m = t`, and v is linear in
`sqrt(t)`. Near 0 `m = v` is linear in t, and Q and R are 0. On each interval v
ranges from -1 to 1.
"""

import functools
import itertools
import json
import math
import pathlib
from typing import Any, TypeAlias

import numpy as np
from keras import ops

from keras_likelihood.backend.operations import clip, computes_apart, lookup
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.special import polynomial, with_slopes

ENDS = (0.0, 0.28, 1.2, 2.0, math.inf)
"""The ends of the intervals. The first two are the ones near 0."""


def _near_zero(low: Any, high: Any, margin: Tensor) -> tuple[float, ...]:
    """Numbers for `t = shape / (shape + margin)` on an interval."""
    first, last = low / (low + margin), high / (high + margin)
    slope, middle = 2 / (last - first), 0.5 * (first + last)
    return 0.0, margin, 1.0, margin, slope, -slope * middle, 0.0


# t is `|shape - start| / (constant + factor * shape)`. The others are its slope
# times the squared denominator, the two coefficients of m and the factor of v.
_MAPS = (
    _near_zero(*ENDS[:2], 0.25),
    _near_zero(*ENDS[1:3], 1.5),
    (2.0, 2.0, 2.0, -6.0, 1.0, 0.0, 2 * math.sqrt(5.5)),
    (2.0, 0.0, 1.0, 2.0, 1.0, 0.0, 2.0),
)
FITS_PATH = pathlib.Path(__file__).with_name("log_partition.json")
Fit: TypeAlias = list[list[list[float]]]
"""For each interval the coefficients `[[c], G, Q, R]`."""


def log_partition(shape: Tensor) -> Tensor:
    """`log Z(shape)`, with Z the integral of `exp(-rho(x, shape, 1))`.

    The absolute error is below 1e-9 in float64 and of the order of rounding in
    float32. At shape 2, where the slope is infinite, the gradient is finite.
    """
    return _log_partition(ops.convert_to_tensor(shape))


def value_and_slope(shape: Tensor) -> tuple[Tensor, Tensor]:
    """`(log Z, d log Z / d shape)`, without automatic differentiation."""
    return evaluate(shape, *_stored(ops.dtype(shape)))


def scale_exponent(shape: Tensor) -> Tensor:
    """`0.5 + 0.5 E[z psi^3] / E[psi^2]`, psi the score, within 1e-4."""
    return evaluate(shape, *_stored("scale exponent"))[0]


def log_variance(shape: Tensor) -> Tensor:
    """Logarithm of the variance times `shape / (1 + shape)`."""
    return evaluate(shape, *_stored("log variance"))[0]


def evaluate(shape: Tensor, columns: Array, ends: tuple[int, ...]) -> Any:
    """The value and the slope of a fitted function, see `columns_of`."""
    found = lookup(columns.astype(ops.dtype(shape)), shape, ENDS[1:-1])
    start, low, factor, numerator, slope_m, m, slope_v, c, *rest = found
    g, q, r = (rest[i:j] for i, j in itertools.pairwise((0, *ends)))
    a = clip(shape, 0.0, 1e12)
    distance, divisor = ops.abs(a - start), low + factor * a
    inverse = 1 / divisor
    near_zero = shape < ENDS[2]

    def pieces(t: Tensor) -> Any:
        # Shape 2 is moved by less than the spacing of floats.
        t = clip(t, 1e-30, 1.0)
        log_t, root = ops.log(t), slope_v * ops.sqrt(t)
        size = slope_m * t + m
        v = ops.where(near_zero, size, root - 1)
        size_slope = ops.where(near_zero, size * slope_m, 0.5 * root)
        polynomials = [polynomial(part, v) for part in (g, q, r)]
        return log_t, t * log_t, size, size_slope, *polynomials

    found = pieces(distance * inverse)
    _, singular, size, _, (g_value, _), (q_value, _), (r_value, _) = found
    value = c + size * g_value + singular * (q_value + singular * r_value)
    if computes_apart():
        found = pieces(distance / divisor)
    log_t, singular, _, size_slope, *polynomials = found
    (g_value, g_slope), (q_value, q_slope), (r_value, r_slope) = polynomials
    slope = g_slope + log_t * (q_slope + singular * r_slope)
    slope = slope * size_slope + slope_m * g_value
    slope = slope + (log_t + 1) * (q_value + 2 * singular * r_value)
    return value, slope * numerator * inverse * inverse


def columns_of(fit: Fit) -> tuple[Array, tuple[int, ...]]:
    """A row of numbers for each interval, and where G, Q and R end."""
    parts = [
        np.array([*itertools.zip_longest(*part, fillvalue=0.0)]).T
        for part in zip(*fit, strict=True)
    ]
    ends = np.cumsum([part.shape[1] for part in parts[1:]])
    return np.hstack([_MAPS, *parts]), tuple(ends.tolist())


@functools.cache
def _stored(name: str) -> tuple[Array, tuple[int, ...]]:
    return columns_of(json.loads(FITS_PATH.read_text())[name])


_log_partition = with_slopes(value_and_slope)
