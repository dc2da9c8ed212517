"""The softplus link of the solvers, with its derivative."""

import numpy as np


class SoftplusLink:
    """`f(x) = (ln(1 + e^x) + s) / (ln 2 + s)` and its slope; `f(0) = 1`.

    It is the same map as `constraints.ShiftedSoftplus`, so that a
    `PredictedParameter` can use a fitted kernel.

    Args:
        offset: the `s` above, `>= 0`; `f` stays above `s / (ln 2 + s)`.
    """

    def __init__(self, offset):
        self.offset = offset

    def __call__(self, x):
        unit = np.log(2.0) + self.offset
        value = (np.logaddexp(0.0, x) + self.offset) / unit
        # The exponent is never positive, so that exp cannot overflow.
        small = np.exp(-np.abs(x))
        slope = np.where(x >= 0, 1.0, small) / (1.0 + small)
        return np.maximum(value, 1e-30), slope / unit
