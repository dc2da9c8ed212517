"""A plane for most rows, and outliers with targets anywhere.

    y ~ (1 - e(x)) Normal(x . b, floor) + e(x) Cauchy(middle, width)
    log(e / (1 - e)) = level + slope distance(x)

The share of outliers e may depend on the distance of x from the middle of the
inputs. So an outlier that lies near the plane by chance is recognised if most
rows near it are outliers. Outliers have no influence on the plane. The mixture
is fitted by EM. BIC compares it with a plain Normal without outliers. On clean
data the plain Normal is chosen, so that the result is as efficient as least
squares.

Prior work: mixtures for outliers (Aitkin and Wilson, 1980; Torr and Zisserman,
2000, MLESAC), gates (Jacobs and others, 1991), concentration steps (Rousseeuw
and Van Driessen, 2006).
"""

import dataclasses
from typing import Any

import numpy as np
from scipy import special

from keras_likelihood.robust import starts

_OUTLIER_PARAMETERS = 4
_FAR = 2.5
_SCREENING_ROWS = 500
_HOPELESS = 5.0
"""More log-likelihood than further steps of EM can gain."""


@dataclasses.dataclass
class Gated:
    """A fitted mixture, or several along the first axis.

    Without outliers `level` is minus infinity.
    """

    coefficients: np.ndarray
    variance: np.ndarray
    level: np.ndarray
    slope: np.ndarray
    middle: np.ndarray
    width2: np.ndarray
    cost: Any = None
    inliers: Any = None

    def at(self, places):
        """Some of the mixtures."""
        fields = dataclasses.asdict(self)
        return Gated(**{name: v[places] for name, v in fields.items()})

    def log_odds(self, squares, distance, y):
        """Log-odds of being an outlier, `(..., n)`."""
        away = (y - self.middle) ** 2 / self.width2
        gain = np.log(2 * self.variance / (np.pi * self.width2)) / 2
        outlier = gain - np.log1p(away)
        gate = self.level + self.slope * distance
        return gate + outlier + squares / (2 * self.variance)


class PlanesAndOutliers:
    """The data of a mixture in standardised units; the last column is ones.

    `distance` are the `Distances` of the rows, and `lowest` is the lowest
    value of the variance.
    """

    def __init__(self, x, y, weight, distance, lowest):
        self.x, self.y, self.weight = x, y, weight
        self.distance, self.lowest = distance, lowest
        n, self.p = x.shape
        self.total = weight.sum()
        self.lost = self.p * self.total / n

    def at_rows(self, rows):
        """The same data with rows drawn by their weights."""
        return PlanesAndOutliers(
            self.x[rows],
            self.y[rows],
            np.ones(len(rows)),
            self.distance[rows],
            self.lowest,
        )

    def best_of(self, coefficients) -> Gated:
        """The best of the mixtures around planes, after a few steps."""
        found = self.descend(self._begin(coefficients), 6)
        found = self.judge(found)
        # Outliers are fewer than half of the rows.
        excess = np.maximum(0.5 - found.inliers, 0)
        place = np.argmin(np.nan_to_num(found.cost, nan=np.inf) + 1e9 * excess)
        return found.at(slice(place, place + 1))

    def _begin(self, coefficients) -> Gated:
        """Mixtures around planes, `(s, p)`, before any step."""
        squares = self._squares(coefficients)
        middle = starts.weighted_median(squares, self.weight)
        one = np.ones((len(coefficients), 1))
        variance = starts.MIDDLE * middle[:, None]
        return Gated(
            coefficients,
            np.maximum(variance, self.lowest),
            -one,
            0 * one,
            0 * one,
            _FAR**2 * one,
        )

    def descend(self, found: Gated, steps: int, tolerance=0.0) -> Gated:
        """Runs EM. Apart from the priors, the likelihood never falls."""
        squares = self._squares(found.coefficients)
        for _ in range(steps):
            before = found.coefficients
            found, squares = self._step(found, squares)
            moved = np.abs(found.coefficients - before).max(axis=-1)
            if np.all(moved <= tolerance * np.sqrt(found.variance[:, 0])):
                break
        return found

    def _squares(self, coefficients):
        return (self.y - coefficients @ self.x.T) ** 2

    def _step(self, found, squares):
        odds = found.log_odds(squares, self.distance, self.y)
        outlier = special.expit(odds)
        inlier = self.weight * (1 - outlier)
        outlier = self.weight * outlier
        level, slope = self._gate(found, outlier)
        away = (self.y - found.middle) ** 2
        strength = outlier * (2 / (1 + away / found.width2))
        # This adds one outlier at the spread of y.
        middle = (strength @ self.y)[:, None]
        middle /= strength.sum(axis=1, keepdims=True) + 1
        width2 = (strength * away).sum(axis=1, keepdims=True) + 1
        width2 /= outlier.sum(axis=1, keepdims=True) + 1
        coefficients = starts.weighted_least_squares(self.x, self.y, inlier)
        squares = self._squares(coefficients)
        freedom = np.maximum(inlier.sum(axis=1, keepdims=True) - self.lost, 1)
        variance = (inlier * squares).sum(axis=1, keepdims=True) / freedom
        variance = np.maximum(variance, self.lowest)
        width2 = np.maximum(width2, variance)
        after = Gated(coefficients, variance, level, slope, middle, width2)
        return after, squares

    def _gate(self, found, outlier):
        """One Newton step of a logistic regression on the distance."""
        d = self.distance
        share = special.expit(found.level + found.slope * d)
        residual = outlier - self.weight * share
        curvature = self.weight * np.maximum(share * (1 - share), 1e-4)
        # The slope has a normal prior of deviation 1.
        by_level = residual.sum(axis=1, keepdims=True)
        by_slope = (residual @ d)[:, None] - found.slope
        a = curvature.sum(axis=1, keepdims=True)
        b = (curvature @ d)[:, None]
        c = (curvature @ d**2)[:, None] + 1
        determinant = a * c - b**2
        level = (c * by_level - b * by_slope) / determinant
        slope = (a * by_slope - b * by_level) / determinant
        return (
            found.level + _within(level, 2),
            found.slope + _within(slope, 2),
        )

    def judge(self, found: Gated) -> Gated:
        """Computes costs (negative log-likelihoods) and shares of inliers."""
        squares = self._squares(found.coefficients)
        odds = found.log_odds(squares, self.distance, self.y)
        gate = found.level + found.slope * self.distance
        normal = squares / (2 * found.variance) + np.log(found.variance) / 2
        cost = normal + np.logaddexp(0, gate) - np.logaddexp(0, odds)
        inlier = special.expit(-odds)
        freedom = self.lost * np.log(found.variance[:, 0]) / 2
        return dataclasses.replace(
            found,
            cost=cost @ self.weight - freedom,
            inliers=inlier @ self.weight / self.total,
        )

    def plain(self) -> Gated:
        """Least squares: a Normal, and no outliers."""
        b = starts.least_squares(self.x, self.y, self.weight)
        squares = self.weight @ (self.y - self.x @ b) ** 2
        freedom = self.total - self.lost
        variance = max(squares / max(freedom, 1e-300), self.lowest)
        cost = squares / variance + freedom * np.log(variance)
        one = np.ones((1, 1))
        return Gated(
            b[None],
            variance * one,
            -np.inf * one,
            0 * one,
            0 * one,
            one,
            np.array([cost / 2]),
            np.ones(1),
        )


def _within(values, reach):
    # This is faster than `clip` for a few values.
    return np.minimum(np.maximum(values, -reach), reach)


class Distances:
    """Standardised distances of rows from the middle of the inputs.

    Args:
        x: standardised inputs, `(n, d)`.
        weight: positive, `(n,)`.
    """

    def __init__(self, x, weight):
        distance = self._plain(x)
        self.middle = starts.weighted_median(distance, weight)
        away = np.abs(distance - self.middle)
        self.spread = 1.4826 * starts.weighted_median(away, weight) or 1.0

    def _plain(self, x):
        # Without columns the distance is 0.
        return np.sqrt((x**2).sum(axis=1) / max(x.shape[1], 1))

    def __call__(self, x):
        # The farthest rows alone must not decide the gate.
        return np.clip((self._plain(x) - self.middle) / self.spread, -3, 6)


def solve(x, y, weight, *, lowest, restraint, rng):
    """The best mixture from many starts, or least squares if that is better.

    `restraint` is a factor on BIC's cost of the parameters of outliers.

    Returns:
        A `Gated` stack of one, and the `Distances`.
    """
    distances = Distances(x[:, :-1], weight)
    whole = PlanesAndOutliers(x, y, weight, distances(x[:, :-1]), lowest)
    plain = whole.plain()
    if np.isinf(restraint) or len(x) <= x.shape[1] + 1:
        return plain, distances
    sample = whole
    if len(x) > _SCREENING_ROWS:
        drawn = np.sort(starts.draw_rows(weight, _SCREENING_ROWS, rng))
        sample = whole.at_rows(drawn)
    planes = starts.find_planes(sample.x, sample.y, sample.weight, rng)
    best = sample.best_of(planes)
    cost = restraint * _OUTLIER_PARAMETERS / 2 * np.log(whole.total)
    if sample is whole and best.cost[0] + cost > plain.cost[0] + _HOPELESS:
        return plain, distances
    best = whole.judge(whole.descend(best, 50, tolerance=1e-5))
    # A NaN means that data are too large or too few for a mixture.
    found = best if best.cost[0] + cost < plain.cost[0] else plain
    return found, distances
