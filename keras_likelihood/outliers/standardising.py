"""Standardises columns whose values may be of any size."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array

FARTHEST = 1e6
"""Values are clipped at this number of robust deviations from the median."""
_LARGEST = 1e300
"""Sums and differences of numbers up to this size do not overflow."""


def measure(x: Array) -> dict[str, Any]:
    """Measures the columns of a table of float64, for `standardise`.

    The deviation of a column with a value of 1e200 would overflow. So columns
    are first measured in robust deviations (`spread`) from the median
    (`middle`), the unit of `mean` and `deviation`. `kept` is false for constant
    columns.
    """
    x = np.clip(x, -_LARGEST, _LARGEST)
    middle = np.median(x, axis=0)
    distance = np.abs(x - middle)
    spread = 1.4826 * np.median(distance, axis=0)
    # If most values of a column are equal, its median deviation is 0.
    spread = np.where(spread > 0, spread, distance.mean(axis=0))
    spread = np.where(spread > 0, spread, 1.0)
    u = np.clip(_robust(x, middle, spread), -FARTHEST, FARTHEST)
    mean, deviation = u.mean(axis=0), u.std(axis=0)
    # Rounding errors of a constant column are not a deviation.
    largest = np.abs(middle + spread * u).max(axis=0)
    kept = spread * deviation > 1e-7 * largest
    parts = {"mean": mean, "deviation": deviation, "kept": kept}
    return {**parts, "middle": middle, "spread": spread}


def _robust(x: Array, middle: Array, spread: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.clip((x - middle) / spread, -_LARGEST, _LARGEST)


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

    The excess, `(n,)`, is 0 for rows without clipped values, and at least
    `log(FARTHEST)` for a new value in a constant column.
    """
    x = np.clip(x, -_LARGEST, _LARGEST)
    u = _robust(x, middle, spread)[:, kept]
    excess = np.log(np.maximum(np.abs(u).max(axis=1) / FARTHEST, 1.0))
    is_new = (np.abs(x - middle) > 1e-6 * np.abs(middle)) & ~kept
    excess[is_new.any(axis=1)] += np.log(FARTHEST)
    z = (np.clip(u, -FARTHEST, FARTHEST) - mean[kept]) / deviation[kept]
    # Beyond this the network's float32 arithmetic could overflow.
    return np.clip(z, -FARTHEST, FARTHEST).astype("float32"), excess
