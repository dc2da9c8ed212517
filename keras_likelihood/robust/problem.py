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

import dataclasses
from typing import Any

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


@dataclasses.dataclass
class Problem:
    """A robust linear regression in standardised units.

    The objective is the negative log-likelihood. In it log(floor) counts only
    for the degrees of freedom that the coefficients leave. There is a prior on
    the weights of the scale:

        sum_i w_i [ (1 - p / n) log(floor_i) + rho(q_i, shape) + log C(shape) ]
            + restraint (|v|^2 + shape^2)
        floor_i = max(exp(c + v . x_i), exp(lowest))
        q_i = ((y_i - x_i . b) / floor_i)^2

    Without the correction for degrees of freedom, a plane through p of the
    examples with a floor of 0 would be the best.

    Args:
        x: inputs, the last column ones, `(n, p)`.
        y: targets, `(n,)`.
        weight: positive, `(n,)`.
        criterion: one of `criteria`.
        shape: its fixed shape, or `None` to learn it.
        slopes: whether `v` is learned; else it is zero.
        restraint: strength of the prior on `v` and `shape`.
        lowest: lower bound of the log of the floor.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    criterion: Any
    shape: float | None
    slopes: bool
    restraint: float
    lowest: float

    def __post_init__(self):
        self.total = self.weight.sum()
        n, p = self.x.shape
        self.freedom = self.total * max(1 - p / n, 0.0)

    def at_rows(self, rows):
        """The same problem on rows drawn by their weights."""
        return dataclasses.replace(
            self, x=self.x[rows], y=self.y[rows], weight=np.ones(len(rows))
        )

    def objective(self, coefficients, slopes, log_floor, shape):
        """Value, and a tuple of the gradients by each argument."""
        linear = log_floor + self.x[:, :-1] @ slopes
        log_floors = np.maximum(linear, self.lowest)
        precision = np.exp(-2 * log_floors)
        residual = self.y - self.x @ coefficients
        q = residual**2 * precision
        share = self.freedom / self.total
        normaliser, normaliser_slope = self.criterion.log_normaliser(shape)
        on_slopes = self.restraint if self.slopes else 0.0
        # A fixed shape has no prior, and may be infinite.
        learned = shape if self.shape is None else 0.0
        cost = share * log_floors + self.criterion.rho(q, shape)
        value = self.weight @ cost + self.total * normaliser
        value += on_slopes * slopes @ slopes + self.restraint * learned**2
        influence = self.weight * self.criterion.weight(q, shape)
        by_floor = self.weight * share - influence * q
        by_floor *= linear >= self.lowest
        by_shape = self.weight @ self.criterion.shape_slope(q, shape)
        return value, (
            -self.x.T @ (influence * precision * residual),
            self.x[:, :-1].T @ by_floor + 2 * on_slopes * slopes,
            by_floor.sum(),
            by_shape
            + self.total * normaliser_slope
            + 2 * self.restraint * learned,
        )


@dataclasses.dataclass
class Solution:
    """The objective's arguments and its value there."""

    coefficients: np.ndarray
    slopes: np.ndarray
    log_floor: float
    shape: float
    value: float
