"""The softplus link of the solvers: a kernel with its derivative."""

import numpy as np


class SoftplusLink:
    """`f(x) = (ln(1 + e^x) + s) / (ln 2 + s)` and its slope; `f(0) = 1`.

    The same map as `constraints.ShiftedSoftplus`, so that a fitted kernel
    can be handed to a `PredictedParameter`.

    Args:
        offset: the `s` above, `>= 0`; `f` stays above `s / (ln 2 + s)`.
    """

    def __init__(self, offset):
        self.offset = offset

    def __call__(self, x):
        unit = np.log(2.0) + self.offset
        value = (np.logaddexp(0.0, x) + self.offset) / unit
        # exp of a number that is never positive cannot overflow.
        small = np.exp(-np.abs(x))
        slope = np.where(x >= 0, 1.0, small) / (1.0 + small)
        return np.maximum(value, 1e-30), slope / unit
