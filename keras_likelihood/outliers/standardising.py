"""Standardises columns whose values may be of any size."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array

FARTHEST = 1e6
"""Values are clipped at this number of robust deviations from the median."""


def measure(x: Array) -> dict[str, Any]:
    """Measures the columns of a table of float64, `(n, columns)`.

    With one value of 1e200 the deviation of its column would overflow, and the
    value would not be found. So values are clipped at `FARTHEST` robust
    deviations (`spread`) from the median (`middle`) before mean and deviation
    are computed. `kept` is false for constant columns.
    """
    # Halves are used, because the distance of two values may overflow.
    half = x / 2
    middle = np.median(half, axis=0)
    spread = 1.4826 * np.median(np.abs(half - middle), axis=0)
    # If most values of a column are equal, its median deviation is 0.
    spread = np.where(spread > 0, spread, _moments(half)[1])
    with np.errstate(over="ignore"):
        middle, spread = 2 * middle, 2 * spread
        x = _cut(x, middle, spread)
    mean, deviation = _moments(x)
    return {
        "mean": mean,
        "deviation": deviation,
        # Rounding errors of a constant column are not a deviation.
        "kept": deviation > 1e-7 * np.abs(x).max(axis=0),
        "middle": middle,
        "spread": spread,
    }


def _moments(x: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column, for values of any size."""
    # Division by powers of two avoids overflow and rounding.
    exponent = np.frexp(np.abs(x).max(axis=0))[1]
    x = np.ldexp(x, -exponent)
    return np.ldexp(x.mean(axis=0), exponent), np.ldexp(x.std(axis=0), exponent)


def _cut(x: Array, middle: Array, spread: Array) -> Array:
    reach = FARTHEST * spread
    return np.clip(x, middle - reach, middle + reach)


def standardise(
    x: Array,
    mean: Array,
    deviation: Array,
    kept: Array,
    middle: Array,
    spread: Array,
) -> tuple[Array, Array]:
    """Standardises the kept columns, to float32 `(n, kept)`.

        excess = max over columns of log(|x - middle| / (FARTHEST spread))

    The excess, `(n,)`, is 0 for rows without clipped values. A new value in a
    constant column counts as `FARTHEST` deviations: its row gets an excess of
    at least `log(FARTHEST)`. The arguments are those that `measure` returns.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        cut = _cut(x, middle, spread)
        z = (cut - mean)[:, kept] / deviation[kept]
        beyond = ((cut != x) & kept).any(axis=1)
        # Halves and logarithms are used, because the distance may overflow.
        away = np.log(np.abs(x[beyond] / 2 - middle / 2))[:, kept]
        away -= np.log(spread[kept] / 2) + np.log(FARTHEST)
        new = (np.abs(x - middle) > 1e-6 * np.abs(middle)) & ~kept
    excess = np.zeros(len(x))
    excess[beyond] = away.max(axis=1, initial=0.0)
    excess[new.any(axis=1)] += np.log(FARTHEST)
    # Beyond this the network's float32 arithmetic could overflow.
    return np.clip(z, -FARTHEST, FARTHEST).astype("float32"), excess
