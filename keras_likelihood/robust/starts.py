"""Starting points of a fit: the best of many planes through small subsets.

The criteria have many local minima, one for each choice of outliers. Rows are
drawn by their place in sorted order and by their weight. So the order of the
rows does not matter, and a weight of two equals a repeated row.
"""

import dataclasses
from typing import Any

import numpy as np

MIDDLE = 2.198
"""Variance of a standard normal divided by the median of its square."""
_SCREENING_ROWS = 500
_MOST_SUBSETS = 500
_MOST_NUMBERS = 2**23


@dataclasses.dataclass
class Rows:
    """Standardised rows of a regression, the last column of `x` ones.

    `lowest` is the lower bound of the log of the floor.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    lowest: float

    def __post_init__(self) -> None:
        n, p = self.x.shape
        self.total = self.weight.sum()
        self.freedom = self.total * max(1 - p / n, 0.0)
        self.lowest_variance = np.exp(2 * self.lowest)

    def screened(self, rng: Any) -> Any:
        """The same problem on a weighted sample, if there are many rows."""
        if len(self.x) <= _SCREENING_ROWS:
            return self
        rows = np.sort(draw_rows(self.weight, _SCREENING_ROWS, rng))
        arrays = {k: v for k, v in vars(self).items() if np.ndim(v)}
        drawn = {name: values[rows] for name, values in arrays.items()}
        drawn["weight"] = np.ones(len(rows))
        return dataclasses.replace(self, **drawn)

    def squares(self, planes: Any) -> Any:
        """Squared residuals of planes, `(..., p)` to `(..., n)`."""
        return (self.y - planes @ self.x.T) ** 2

    def least_squares(self) -> Any:
        """Coefficients and variance."""
        b = weighted_least_squares(self.x, self.y, self.weight)
        variance = self.weight @ self.squares(b) / (self.freedom or np.inf)
        return b, max(variance, self.lowest_variance)

    def find_planes(self, rng: Any) -> Any:
        """Planes of all rows, of the central rows, and of small subsets."""
        distance = (self.x[:, :-1] ** 2).sum(axis=1)
        central = distance <= weighted_median(distance, self.weight)
        both = np.stack([self.weight, self.weight * central])
        planes = weighted_least_squares(self.x, self.y, both)
        subsets = concentrated(self.x, self.y, self.weight, rng)
        return np.vstack([planes, subsets])


def canonical_rows(x: Any, y: Any, weight: Any) -> Any:
    """Rows of positive weight, sorted by y and merged; mean weight 1."""
    x, y, weight = x[weight > 0], y[weight > 0], weight[weight > 0]
    order = np.argsort(y)
    first = np.ones(len(y), bool)
    if np.any(np.diff(y[order]) == 0):
        order = np.lexsort((*x.T, y))
        rows = np.column_stack([x, y])[order]
        first[1:] = np.any(rows[1:] != rows[:-1], axis=1)
    weight = np.add.reduceat(weight[order], np.flatnonzero(first))
    order = order[first]
    return x[order], y[order], weight / weight.mean()


def draw_rows(weight: Any, shape: Any, rng: Any) -> Any:
    """Row numbers of the given shape, drawn in proportion to the weights."""
    cumulative = np.cumsum(weight)
    position = rng.uniform(0, cumulative[-1], shape)
    return np.minimum(np.searchsorted(cumulative, position), len(weight) - 1)


def weighted_median(values: Any, weight: Any) -> Any:
    """The lower median along the last axis."""
    if np.all(weight == weight[0]):
        middle = (len(weight) - 1) // 2
        return np.partition(values, middle, axis=-1)[..., middle]
    order = np.argsort(values, axis=-1)
    cumulative = np.cumsum(weight[order], axis=-1)
    middle = np.argmax(cumulative >= cumulative[..., -1:] / 2, axis=-1)
    place = np.take_along_axis(order, middle[..., None], axis=-1)
    return np.take_along_axis(values, place, axis=-1)[..., 0]


def trimmed(squares: Any, weight: Any) -> Any:
    """Weights of the smaller half, `(s, n)`, and its mean, `(s,)`."""
    kept = weight * (squares <= weighted_median(squares, weight)[:, None])
    return kept, np.einsum("sn,sn->s", kept, squares) / kept.sum(axis=1)


def weighted_least_squares(x: Any, y: Any, weight: Any) -> Any:
    """Coefficients for each row of weights, `(..., n)` to `(..., p)`."""
    weighted = weight[..., None, :] * np.swapaxes(x, -1, -2)
    gram, moment = weighted @ x, weighted @ y[..., None]
    # The ridge has the size of rounding errors. It only matters in directions
    # without data.
    trace = np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    ridge = (1e-13 * trace + 1e-300) * np.eye(x.shape[-1])
    return np.linalg.solve(gram + ridge, moment)[..., 0]


def concentrated(x: Any, y: Any, weight: Any, rng: Any) -> Any:
    """The best planes through p rows, `(5, p)` or `(8, p)`, after steps.

    A concentration step fits a plane by least squares to the half of the rows
    that fit best. It never raises their mean square.
    """
    p = x.shape[1]
    needed = _subsets_needed(p)
    # Systems of equations of all subsets are in memory together.
    subsets = min(2 * needed, _MOST_SUBSETS, max(_MOST_NUMBERS // p**2, 10))
    rows = draw_rows(weight, (subsets, min(p, len(x))), rng)
    planes = weighted_least_squares(x[rows], y[rows], np.ones(rows.shape[1]))
    if p > 2:
        planes = np.vstack([planes, _least_absolute(x, y, weight)])
    if needed > _MOST_SUBSETS:
        # Hardly any subset is free of outliers. More steps are needed.
        narrowing = (subsets // 5, 25, *[8] * 13)
    elif p == 2:
        narrowing = (subsets // 4, 5)
    else:
        narrowing = (subsets // 5, 20, 5, 5, 5)
    for survivors in narrowing:
        kept, cost = trimmed((y - planes @ x.T) ** 2, weight)
        best = np.argsort(cost, kind="stable")[:survivors]
        planes = weighted_least_squares(x, y, kept[best])
    return planes


def _subsets_needed(p: Any) -> Any:
    """Subsets of p rows needed for one without outliers, if 45 % are."""
    return int(np.ceil(np.log(1e-6) / np.log1p(-max(0.55**p, 1e-9))))


def _least_absolute(x: Any, y: Any, weight: Any) -> Any:
    """Approximate plane of least absolute errors, `(1, p)`."""
    # Outliers in y with typical x hardly change it.
    plane = weighted_least_squares(x, y, weight[None])
    for _ in range(10):
        error = np.abs(y - plane @ x.T)
        least = 1e-3 * weighted_median(error, weight)[:, None] + 1e-300
        plane = weighted_least_squares(x, y, weight / np.maximum(error, least))
    return plane
