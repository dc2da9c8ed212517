"""The objective of a robust linear regression."""

import dataclasses
from typing import Any

import numpy as np


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
