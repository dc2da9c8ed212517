"""How many decimals a column of numbers is written with."""

import math

import numpy as np


def decimals(values, most: int = 4) -> int:
    """Decimals that leave the largest number four digits; 0 for integers.

    >>> decimals(np.array([0.5, 12.25]))
    2
    """
    values = np.asarray(values, "float64")
    values = values[np.isfinite(values)]
    if np.array_equal(values, np.round(values)):
        return 0
    largest = float(np.abs(values).max())
    return min(max(3 - math.floor(math.log10(largest)), 0), most)
