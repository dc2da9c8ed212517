"""Linear regression with a scale for each example, by maximum likelihood.

The best scale of a Normal with the prior `(floor / scale)^restraint` turns the
negative log-likelihood into a robust loss of the squared residual,

    q = (residual / floor)^2,    a = 1 + restraint,
    rho(q, a) = q / 2                   where q <= a
              = a / 2 (1 + log(q / a))  beyond.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import optimize, special

from keras_likelihood.backend.types import Array
from keras_likelihood.robust import starts

RANGE = (0.5, 30.0)
"""Bounds of a learned restraint."""
_FIRST_RESTRAINT = 1.0
_SQRT_TWO_PI = np.sqrt(2 * np.pi)


def rho(q: Array, a: float) -> Array:
    """Loss of squared residuals. With `m` residuals a is `m + restraint`."""
    if np.isinf(a):
        return q / 2
    return np.minimum(q, a) / 2 + a / 2 * np.log(np.maximum(q / a, 1))


def influence(q: Array, a: float) -> Array:
    """`2 d rho / d q`, the weight of the example in least squares."""
    return 1 / np.maximum(q / a, 1)


def log_normaliser(restraint: float) -> tuple[float, float]:
    """Log of the integral of `exp(-rho)` over a normal density's, and slope."""
    if np.isinf(restraint):
        return 0.0, 0.0
    a = 1 + restraint
    edge = np.exp(-a / 2)
    tail = 2 * edge * np.sqrt(a) / restraint
    total = _SQRT_TWO_PI * special.erf(np.sqrt(a / 2)) + tail
    slope = edge / np.sqrt(a) + tail * (1 / a - 1 - 2 / restraint) / 2
    return np.log(total / _SQRT_TWO_PI), slope / total


@dataclasses.dataclass
class Solution:
    """A plane, its floor `exp(log_floor + x . slopes)` and the restraint."""

    coefficients: np.ndarray
    slopes: np.ndarray
    log_floor: float
    restraint: float


@dataclasses.dataclass
class Problem(starts.Rows):
    """A robust linear regression in standardised units.

    The objective is the negative log-likelihood. In it, log(floor) is counted
    once for each remaining degree of freedom. Otherwise a plane through p of
    the examples with a floor of 0 would be the optimum.

        sum_i w_i [ (1 - p / n) log(floor_i) + rho(q_i, a) + log C(restraint) ]
            + decay |v|^2
        floor_i = max(exp(c + v . x_i), exp(lowest))
        q_i = ((y_i - x_i . b) / floor_i)^2

    The restraint is learned if it is `None`, and `v` is zero without `decay`.
    """

    restraint: float | None
    decay: float | None = None

    def objective(self, at: Solution) -> tuple[float, tuple[Any, ...]]:
        """Value, and the gradients with respect to each field of `at`."""
        a = 1 + at.restraint
        linear = at.log_floor + self.x[:, :-1] @ at.slopes
        log_floors = np.maximum(linear, self.lowest)
        precision = np.exp(-2 * log_floors)
        residual = self.y - self.x @ at.coefficients
        q = residual**2 * precision
        share, decay = self.freedom / self.total, self.decay or 0.0
        normaliser, normaliser_slope = log_normaliser(at.restraint)
        value = self.weight @ (share * log_floors + rho(q, a))
        value += self.total * normaliser + decay * at.slopes @ at.slopes
        pull = self.weight * influence(q, a)
        by_floor = self.weight * share - pull * q
        by_floor *= linear >= self.lowest
        by_restraint = self.weight @ np.log(np.maximum(q / a, 1)) / 2
        return value, (
            -self.x.T @ (pull * precision * residual),
            self.x[:, :-1].T @ by_floor + 2 * decay * at.slopes,
            by_floor.sum(),
            by_restraint + self.total * normaliser_slope,
        )


def solve(problem: Problem, rng: np.random.RandomState) -> Solution:
    """The minimum of the objective.

    Of several planes through a sample of the rows, the one with the smallest
    trimmed squares is the start. If the floor depends on x, least squares is
    another start.
    """
    b, variance = problem.least_squares()
    plain = Solution(
        b,
        np.zeros(len(b) - 1),
        np.log(variance) / 2,
        problem.restraint or np.inf,
    )
    is_plain = problem.restraint == np.inf and problem.decay is None
    if problem.freedom == 0 or is_plain:
        return plain
    sample = problem.screened(rng)
    planes = sample.find_planes(rng)
    _, cost = starts.trimmed(sample.squares(planes), sample.weight)
    plane = planes[cost.argmin()]
    middle = starts.weighted_median(problem.squares(plane), problem.weight)
    floor2 = max(starts.MIDDLE * middle, problem.lowest_variance)
    restraint = problem.restraint or _FIRST_RESTRAINT
    begin = Solution(plane, plain.slopes, np.log(floor2) / 2, restraint)
    found = _polish(problem, begin)
    if problem.decay is None:
        return found
    others = found, _polish(problem, plain)
    return min(others, key=lambda at: problem.objective(at)[0])


def _polish(problem: Problem, start: Solution) -> Solution:
    """L-BFGS with exact gradients, in coordinates of unit curvature."""
    p = problem.x.shape[1]
    to_coefficients = _unit_curvature(problem, start)

    def unpack(z: Array) -> Solution:
        b = start.coefficients + to_coefficients @ z[:p]
        return Solution(b, z[p:-2], z[-2], z[-1] + start.restraint)

    def value_and_gradient(z: Array) -> tuple[float, Array]:
        value, (by_b, *others) = problem.objective(unpack(z))
        gradient = np.hstack([to_coefficients.T @ by_b, *others])
        return value / problem.total, gradient / problem.total

    free, fixed = (None, None), (0.0, 0.0)
    is_learned = problem.restraint is None
    change = np.subtract(RANGE, start.restraint) if is_learned else fixed
    result = optimize.minimize(
        value_and_gradient,
        np.hstack([np.zeros(p), start.slopes, start.log_floor, 0.0]),
        jac=True,
        method="L-BFGS-B",
        bounds=[
            *[free] * p,
            *[fixed if problem.decay is None else free] * (p - 1),
            (problem.lowest, None),
            change,
        ],
        options={"maxiter": 500, "ftol": 1e-15, "gtol": 1e-8},
    )
    return unpack(result.x)


def _unit_curvature(problem: Problem, start: Solution) -> Array:
    """Matrix from coordinates in which the curvature is about one."""
    floor = np.exp(start.log_floor)
    q = problem.squares(start.coefficients) / floor**2
    weight = problem.weight * influence(q, 1 + start.restraint)
    gram = (problem.x.T * weight) @ problem.x / problem.total
    unit = np.eye(len(gram))
    root = np.linalg.cholesky(gram + 1e-12 * np.trace(gram) * unit)
    return floor * np.linalg.solve(root.T, unit)
