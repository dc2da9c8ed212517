"""What an example costs, as a function of its squared residual.

Both criteria are the complete negative log-likelihood of a Normal whose scale
is at least a global floor, in units of that floor,

    q = (r / floor)^2,
    -log p(r) = log(floor) + rho(q, shape) + log_normaliser(shape),

up to log(2 pi) / 2. A scale that may read y, or that belongs to one example,
explains every residual by itself, so its likelihood does not integrate to one
and has no best floor. What mends both is a prior on the scale, a power of
`floor / scale`, and the normaliser that this prior makes finite.
"""

import numpy as np
from scipy import special

_SQRT_TWO_PI = np.sqrt(2 * np.pi)


class PredictedScale:
    """A scale predicted from x and y: `hypot(floor, k * r)`.

        rho(q, k) = log(1 + k^2 q) + q / (2 (1 + k^2 q))
        normaliser(k) = sqrt(pi / 2) / k  exp(-z) I0(z),  z = 1 / (4 k^2)

    with the prior `floor / scale`. `k = 0` is least squares; the larger k,
    the more examples count as outliers. The tails fall as 1 / r^2. A k above
    0.6, with a larger floor, is almost the same density.
    """

    bounds = (0.0, 0.6)
    plain_shape = 0.0
    screening_shape = 0.5
    grid = np.array([0.0, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6])

    def rho(self, q, k):
        spread = 1 + k**2 * q
        return np.log(spread) + q / (2 * spread)

    def weight(self, q, k):
        """`2 d rho / d q`, the weight of the example in least squares."""
        spread = 1 + k**2 * q
        return (2 * k**2 + 1 / spread) / spread

    def shape_slope(self, q, k):
        """`d rho / d k`."""
        spread = 1 + k**2 * q
        return 2 * k * q / spread - k * (q / spread) ** 2

    def log_normaliser(self, k):
        """Value and slope in k."""
        if k < 1e-2:
            # The first terms of the series in k; I0 needs z below 1 / eps.
            return k**2 / 2 + k**4, k + 4 * k**3
        z = 1 / (4 * k**2)
        i0, i1 = special.ive(0, z), special.ive(1, z)
        value = np.log(np.sqrt(np.pi / 2) / k * i0)
        return value, -1 / k - (i1 / i0 - 1) / (2 * k**3)

    def scale(self, q, k):
        """The scale in units of the floor."""
        return np.sqrt(1 + k**2 * q)


class DataScale:
    """One scale per example, at its own optimum `max(floor, ...)`.

    With `m` residuals an example, q their sum of squares and the prior
    `(floor / scale)^shape`, the best scale is

        scale = floor max(1, sqrt(q / a)),  a = m + shape

    and, that put in,

        rho(q, shape) = q / 2                   where q <= a
                      = a / 2 (1 + log(q / a))  beyond.

    Args:
        dimensions: `m`, residuals an example. Defaults to 1; only then is
            the normaliser given, which learning the shape needs.
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
