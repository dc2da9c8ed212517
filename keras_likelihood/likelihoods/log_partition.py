"""The logarithm of the normalizer of the rho density, and its slope.

The slope of log Z is unbounded at shape 2, where log Z behaves like
`(shape - 2) log|shape - 2|`, and log Z is smooth but not analytic at 0. Both
ends are stretched out by the variable

    w = log(|shape - 2| / (min(shape, 2) + MARGIN))

As a function of w, log Z - log Z(2) is smooth on each side of 2, and small
near 2. The table holds it as a piecewise polynomial of degree 7. So
`d log Z / d shape = (d log Z / d w) (d w / d shape)` keeps its relative
accuracy close to the singularity.
"""

import functools
import math
import pathlib

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.custom_gradient import with_gradient
from keras_likelihood.backend.operations import lookup

TABLE_PATH = pathlib.Path(__file__).with_name("log_partition.npz")
PIECES = 4
"""Pieces per unit of w in the stored table."""
POSITIONS = {"below": (-28.5, 3.5), "above": (-28.5, 22.0)}
"""Range of w in the stored table, below and above shape 2."""
MARGIN = 2 * math.exp(-POSITIONS["below"][1])
"""Puts shape 0 at the upper end of the range below 2."""
LOG_PARTITION_OF_NORMAL = 0.5 * math.log(2 * math.pi)


def log_partition(shape):
    """`log Z(shape)`, with Z the integral of `exp(-rho(x, shape, 1))`.

    The absolute error is below 1e-12 in float64 for every shape from 0 to
    infinity and of the order of rounding in float32. Gradients are tabulated
    too: in float64 within 1e-9 of the true slope for `|shape - 2| >= 1e-3`,
    within a relative 1e-9 closer to 2, and finite at 2 itself where the true
    slope is not.

    Args:
        shape: tensor or number, any shape, values in [0, inf].

    Returns:
        Tensor of the shape of `shape`.

    >>> log_partition(2.0)
    0.9189385
    """
    return _log_partition(ops.convert_to_tensor(shape))


def tabulated(shape: np.ndarray):
    """`(log Z, d log Z / d shape)` of a NumPy array, from the stored table."""
    return _interpolate(np.asarray(shape, dtype="float64"), np)


def value_and_slope(shape):
    """`(log Z, d log Z / d shape)` of a tensor, without automatic gradient."""
    return _interpolate(shape, ops)


def _forward(shape):
    value, slope = value_and_slope(shape)
    return value, (slope,)


def _backward(residuals, upstream):
    return (lambda: upstream * residuals[0],)


_log_partition = with_gradient(_forward, _backward)


@functools.cache
def _table(dtype):
    """Power coefficients of log Z on the pieces of w, below 2 and above 2.

    Each side has its last row again, expanded at the end of its piece, so that
    the end of the range is inside a piece like any other value.
    """
    with np.load(TABLE_PATH) as stored:
        sides = [_with_end(stored[side]) for side in POSITIONS]
    rows = np.concatenate(sides)
    rows[:, 0] += LOG_PARTITION_OF_NORMAL
    return rows.astype(dtype), len(sides[0])


def _with_end(rows):
    last = np.polynomial.Polynomial(rows[-1])
    shifted = last(np.polynomial.Polynomial([1.0, 1.0])).coef
    return np.concatenate([rows, shifted[None]])


def _interpolate(shape, xp):
    below = _indicator(shape < 2, shape, xp)
    lowest, highest = POSITIONS["above"]
    # A zero or infinite gap has no logarithm.
    low, high = math.exp(lowest), math.exp(highest + 1)
    bounded = np.clip if xp is np else clip
    gap = bounded(xp.abs(shape - 2), low, high)
    base = bounded(shape, 0.0, 2.0) + MARGIN
    w = bounded(xp.log(gap / base), lowest, highest)
    value, by_w = _polynomial(w, below, xp)
    slope = by_w * ((1 - 2 * below) / gap - below / base)
    return value, slope


def _polynomial(w, below, xp):
    """`log Z` and its derivative with respect to w."""
    rows, count_below = _table(keras.backend.standardize_dtype(w.dtype))
    position = w * PIECES
    piece = xp.floor(position)
    t = position - piece
    row = piece - round(POSITIONS["above"][0] * PIECES)
    row = row + count_below * (1 - below)
    *lower, below_top, top = _take(rows, row, xp)
    slope, value = top, top * t + below_top
    for coefficient in reversed(lower):
        slope = slope * t + value
        value = value * t + coefficient
    return value, slope * PIECES


def _indicator(condition, like, xp):
    # Arithmetic with zeros and ones is much faster than a selection.
    if xp is np:
        return condition.astype(like.dtype)
    return ops.cast(condition, ops.dtype(like))


def _take(rows, index, xp):
    if xp is np:
        return list(np.moveaxis(rows[index.astype("int32")], -1, 0))
    return lookup(rows, ops.cast(index, "int32"))
