"""A mixture of a plane for most rows and of outliers with any targets.

    y ~ (1 - e(x)) Normal(x . b, floor) + e(x) Cauchy(middle, width)
    log(e / (1 - e)) = level + slope distance(x)

The share of outliers e may depend on the distance of x from the middle of the
inputs. So an outlier that lies near the plane by chance is recognised if most
rows near it are outliers. See `PredictedScaleRegressor`; gates are from Jacobs
and others (1991).
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import special

from keras_likelihood.backend.types import Array
from keras_likelihood.layers.target_units import centre_and_spread
from keras_likelihood.robust import starts

_OUTLIER_PARAMETERS = 4
_FAR = 2.5


@dataclasses.dataclass
class Gated:
    """Fitted mixtures along the first axis; no outliers if `level` is -inf."""

    coefficients: np.ndarray
    variance: np.ndarray
    level: np.ndarray
    slope: np.ndarray
    middle: np.ndarray
    width2: np.ndarray
    cost: Any = None
    inliers: Any = None

    def log_odds(self, squares: Array, distance: Array, y: Array) -> Array:
        """Log-odds of being an outlier, `(..., n)`."""
        gain = np.log(2 * self.variance / (np.pi * self.width2)) / 2
        outlier = gain - np.log1p((y - self.middle) ** 2 / self.width2)
        gate = self.level + self.slope * distance
        return gate + outlier + squares / (2 * self.variance)


@dataclasses.dataclass
class PlanesAndOutliers(starts.Rows):
    """The data of a mixture, with the `Distances` of the rows."""

    distance: np.ndarray

    def best_of(self, coefficients: Array) -> Gated:
        """The best of the mixtures around planes, after a few steps."""
        squares = self.squares(coefficients)
        variance = starts.MIDDLE * starts.weighted_median(squares, self.weight)
        variance = np.maximum(variance, self.lowest_variance)
        begin = self._begin(coefficients, variance, level=-1.0)
        found = self.judge(self.descend(begin, 6))
        # Outliers are fewer than half of the rows.
        excess = np.maximum(0.5 - found.inliers, 0)
        place = np.argmin(np.nan_to_num(found.cost, nan=np.inf) + 1e9 * excess)
        return Gated(*(v[[place]] for v in vars(found).values()))

    def descend(
        self, found: Gated, steps: int, tolerance: float = 0.0
    ) -> Gated:
        """Runs EM. Apart from the priors, the likelihood never decreases."""
        squares = self.squares(found.coefficients)
        for _ in range(steps):
            before = found.coefficients
            found, squares = self._step(found, squares)
            moved = np.abs(found.coefficients - before).max(axis=-1)
            if np.all(moved <= tolerance * np.sqrt(found.variance[:, 0])):
                break
        return found

    def _step(self, found: Gated, squares: Array) -> tuple[Gated, Array]:
        outlier = special.expit(found.log_odds(squares, self.distance, self.y))
        inlier = self.weight * (1 - outlier)
        outlier = self.weight * outlier
        level, slope = self._gate(found, outlier)
        away = (self.y - found.middle) ** 2
        strength = outlier * (2 / (1 + away / found.width2))
        # One more outlier at the spread of y is added.
        middle = (strength @ self.y)[:, None]
        middle /= strength.sum(axis=1, keepdims=True) + 1
        width2 = (strength * away).sum(axis=1, keepdims=True) + 1
        width2 /= outlier.sum(axis=1, keepdims=True) + 1
        coefficients = starts.weighted_least_squares(self.x, self.y, inlier)
        squares = self.squares(coefficients)
        lost = self.total - self.freedom
        freedom = np.maximum(inlier.sum(axis=1, keepdims=True) - lost, 1)
        variance = (inlier * squares).sum(axis=1, keepdims=True) / freedom
        variance = np.maximum(variance, self.lowest_variance)
        width2 = np.maximum(width2, variance)
        after = Gated(coefficients, variance, level, slope, middle, width2)
        return after, squares

    def _gate(self, found: Gated, outlier: Array) -> tuple[Array, Array]:
        """One Newton step of a logistic regression on the distance."""
        design = np.stack([np.ones_like(self.distance), self.distance])
        share = special.expit(found.level + found.slope * self.distance)
        curvature = self.weight * np.maximum(share * (1 - share), 1e-4)
        gradient = (outlier - self.weight * share) @ design.T
        # The slope has a normal prior of deviation 1.
        gradient[:, 1:] -= found.slope
        gram = (curvature[:, None] * design) @ design.T + np.diag([0, 1])
        move = np.linalg.solve(gram, gradient[..., None])[..., 0].clip(-2, 2)
        return found.level + move[:, :1], found.slope + move[:, 1:]

    def judge(self, found: Gated) -> Gated:
        """Computes costs (negative log-likelihoods) and shares of inliers."""
        squares = self.squares(found.coefficients)
        odds = found.log_odds(squares, self.distance, self.y)
        gate = found.level + found.slope * self.distance
        normal = squares / (2 * found.variance) + np.log(found.variance) / 2
        cost = normal + np.logaddexp(0, gate) - np.logaddexp(0, odds)
        lost = self.total - self.freedom
        return dataclasses.replace(
            found,
            cost=cost @ self.weight - lost * np.log(found.variance[:, 0]) / 2,
            inliers=special.expit(-odds) @ self.weight / self.total,
        )

    def plain(self) -> Gated:
        """Least squares: a Normal, and no outliers."""
        b, variance = self.least_squares()
        return self.judge(self._begin(b[None], variance, level=-np.inf))

    def _begin(
        self, coefficients: Array, variance: Array | float, level: float
    ) -> Gated:
        one = np.ones((len(coefficients), 1))
        variance = np.reshape(variance, one.shape)
        outliers = level * one, 0 * one, 0 * one, _FAR**2 * one
        return Gated(coefficients, variance, *outliers)


class Distances:
    """Distances of standardised rows from the middle of the inputs."""

    def __init__(self, x: Array, weight: Array) -> None:
        self.units = centre_and_spread(self._plain(x), 1, weight)

    def _plain(self, x: Array) -> Array:
        # Without columns the distance is 0.
        return np.sqrt((x**2).sum(axis=1) / max(x.shape[1], 1))

    def __call__(self, x: Array) -> Array:
        center, spread = self.units
        # The farthest rows must not dominate the gate.
        return np.clip((self._plain(x) - center) / spread, -3, 6)


def solve(
    x: Array, y: Array, weight: Array, lowest: float, restraint: float, rng: Any
) -> tuple[Gated, Distances]:
    """The best mixture, a stack of one, from many starts, or least squares.

    `restraint` is a factor on BIC's cost of the parameters of outliers.
    """
    inputs = x[:, :-1]
    distances = Distances(inputs, weight)
    whole = PlanesAndOutliers(x, y, weight, lowest, distances(inputs))
    plain = whole.plain()
    if np.isinf(restraint) or len(x) <= x.shape[1] + 1:
        return plain, distances
    sample = whole.screened(rng)
    best = sample.best_of(sample.find_planes(rng))
    cost = restraint * _OUTLIER_PARAMETERS / 2 * np.log(whole.total)
    best = whole.judge(whole.descend(best, 50, tolerance=1e-5))
    # A NaN means that data are too large or too few for a mixture.
    found = best if best.cost[0] + cost < plain.cost[0] else plain
    return found, distances
