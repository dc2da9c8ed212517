"""The loss of an example as a function of its squared residual.

A criterion is the complete negative log-likelihood of a Normal whose scale is
at least a global floor, in units of that floor,

    q = (r / floor)^2,
    -log p(r) = log(floor) + rho(q, shape) + log_normaliser(shape),

up to log(2 pi) / 2. If each example has its own scale, every residual can be
explained. The likelihood then does not integrate to one, and there is no best
floor. A prior on the scale, a power of `floor / scale`, solves this: with it
the normaliser is finite.
"""

import numpy as np
from scipy import special

_SQRT_TWO_PI = np.sqrt(2 * np.pi)


class DataScale:
    """One scale per example, at its own optimum `max(floor, ...)`.

    With `m` residuals for each example, their sum of squares q and the prior
    `(floor / scale)^shape`, the best scale is

        scale = floor max(1, sqrt(q / a)),  a = m + shape

    With this scale,

        rho(q, shape) = q / 2                   where q <= a
                      = a / 2 (1 + log(q / a))  beyond.

    Args:
        dimensions: `m`, the number of residuals for each example. Defaults to
            1. Only then there is a normaliser, which learning the shape needs.
    """

    bounds = (0.5, 30.0)
    plain_shape = np.inf
    screening_shape = 1.0
    grid = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 21.0, 30.0])

    def __init__(self, dimensions: int = 1):
        self.dimensions = dimensions

    def rho(self, q, shape):
        a = self.dimensions + shape
        if np.isinf(a):
            return q / 2
        return np.minimum(q, a) / 2 + a / 2 * np.log(np.maximum(q / a, 1))

    def weight(self, q, shape):
        """`2 d rho / d q`, the weight of the example in least squares."""
        return 1 / np.maximum(q / (self.dimensions + shape), 1)

    def shape_slope(self, q, shape):
        """`d rho / d shape`."""
        return np.log(np.maximum(q / (self.dimensions + shape), 1)) / 2

    def log_normaliser(self, shape):
        """Value and slope in the shape, for one dimension."""
        if np.isinf(shape):
            return 0.0, 0.0
        a = 1 + shape
        edge = np.exp(-a / 2)
        tail = 2 * edge * np.sqrt(a) / shape
        total = _SQRT_TWO_PI * special.erf(np.sqrt(a / 2)) + tail
        slope = edge / np.sqrt(a) + tail * (1 / a - 1 - 2 / shape) / 2
        return np.log(total / _SQRT_TWO_PI), slope / total

    def scale(self, q, shape):
        """The scale in units of the floor."""
        return np.sqrt(np.maximum(q / (self.dimensions + shape), 1))
