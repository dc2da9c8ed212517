"""Starts of a fit: the best of many planes through small subsets.

The criteria have many local minima, one for each choice of outliers. Rows are
drawn by their place in sorted order and by their weight. So the order of the
rows does not matter, and a weight of two is the same as a row twice.
"""

import numpy as np

MIDDLE = 2.198
"""Variance of a standard normal over the median of its square."""
_MOST_SUBSETS = 500
_MOST_NUMBERS = 2**23


def canonical_rows(x, y, weight):
    """Rows sorted by y, equal ones merged, and weights of mean one."""
    order = np.argsort(y)
    if np.any(np.diff(y[order]) == 0):
        order = np.lexsort((*x.T, y))
        rows = np.column_stack([x, y])[order]
        first = np.append(True, np.any(rows[1:] != rows[:-1], axis=1))
        weight = np.add.reduceat(weight[order], np.flatnonzero(first))
        order = order[first]
    else:
        weight = weight[order]
    return x[order], y[order], weight / weight.mean()


def draw_rows(weight, shape, rng):
    """Row numbers of the given shape, drawn in proportion to the weights."""
    cumulative = np.cumsum(weight)
    position = rng.uniform(0, cumulative[-1], shape)
    return np.minimum(np.searchsorted(cumulative, position), len(weight) - 1)


def weighted_median(values, weight):
    """The lower median along the last axis."""
    if np.all(weight == weight[0]):
        middle = (len(weight) - 1) // 2
        return np.partition(values, middle, axis=-1)[..., middle]
    order = np.argsort(values, axis=-1)
    cumulative = np.cumsum(weight[order], axis=-1)
    middle = np.argmax(cumulative >= cumulative[..., -1:] / 2, axis=-1)
    place = np.take_along_axis(order, middle[..., None], axis=-1)
    return np.take_along_axis(values, place, axis=-1)[..., 0]


def trimmed(squares, weight):
    """Weights of the smaller half, `(s, n)`, and its mean, `(s,)`."""
    kept = weight * (squares <= weighted_median(squares, weight)[:, None])
    return kept, np.einsum("sn,sn->s", kept, squares) / kept.sum(axis=1)


def solve_normal_equations(gram, moment):
    """`gram^-1 moment` for stacks `(..., p, p)` and `(..., p)`."""
    # The ridge has the size of rounding errors. It only matters in directions
    # without data.
    trace = np.trace(gram, axis1=-2, axis2=-1)[..., None, None]
    ridge = (1e-13 * trace + 1e-300) * np.eye(gram.shape[-1])
    return np.linalg.solve(gram + ridge, moment[..., None])[..., 0]


def weighted_least_squares(x, y, weight):
    """Coefficients for each row of weights, `(..., n)` to `(..., p)`."""
    gram = (weight[..., None, :] * x.T) @ x
    return solve_normal_equations(gram, (weight * y) @ x)


def least_squares(x, y, weight):
    """Coefficients of least squares, of minimum norm if x has low rank."""
    root = np.sqrt(weight)
    return np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0]


def find_planes(x, y, weight, rng):
    """Planes of all rows, of the central rows, and of small subsets.

    Rows are in canonical order, and the last column of x is ones.
    """
    rows = np.stack([weight, weight * _is_central(x, weight)])
    anchors = weighted_least_squares(x, y, rows)
    return np.vstack([anchors, concentrated(x, y, weight, rng)])


def _is_central(x, weight):
    """1 for the half of the rows nearest to the medians, and 0 for others."""
    distance = (x[:, :-1] ** 2).sum(axis=1)
    return (distance <= weighted_median(distance, weight)).astype(float)


def _planes_through(x, y):
    transposed = np.swapaxes(x, -1, -2)
    moment = (transposed @ y[..., None])[..., 0]
    return solve_normal_equations(transposed @ x, moment)


def concentrated(x, y, weight, rng):
    """Planes through p rows, the best after concentration steps.

    A concentration step fits a plane by least squares to the half of the rows
    that fit best. It never raises their mean square. The result is `(5, p)`,
    or `(8, p)` if there are many columns.
    """
    p = x.shape[1]
    needed = _subsets_needed(p)
    # Systems of equations of all subsets are in memory together.
    subsets = min(2 * needed, _MOST_SUBSETS, max(_MOST_NUMBERS // p**2, 10))
    rows = draw_rows(weight, (subsets, min(p, len(x))), rng)
    planes = _planes_through(x[rows], y[rows])
    if p > 2:
        planes = np.vstack([planes, _least_absolute(x, y, weight)])
    if needed > _MOST_SUBSETS:
        # Hardly a subset is free of outliers: it takes more steps until they
        # are gone.
        narrowing = (subsets // 5, 25, *[8] * 13)
    elif p == 2:
        narrowing = (subsets // 4, 5)
    else:
        narrowing = (subsets // 5, 20, 5, 5, 5)
    for survivors in narrowing:
        squares = (y - planes @ x.T) ** 2
        kept, cost = trimmed(squares, weight)
        best = np.argsort(cost, kind="stable")[:survivors]
        planes = weighted_least_squares(x, y, kept[best])
    return planes


def _subsets_needed(p):
    """Subsets of p rows among which one is almost surely free of outliers.

    Only one time in a million all have outliers, if these are 45 % of the rows.
    """
    share = max(0.55**p, 1e-9)
    return int(np.ceil(np.log(1e-6) / np.log1p(-share)))


def _least_absolute(x, y, weight, steps=10):
    """About the plane of least absolute errors, `(1, p)`.

    Outliers of y whose x are like the others' hardly bend it.
    """
    plane = weighted_least_squares(x, y, weight[None])
    for _ in range(steps):
        error = np.abs(y - plane @ x.T)
        least = 1e-3 * weighted_median(error, weight)[:, None] + 1e-300
        plane = weighted_least_squares(x, y, weight / np.maximum(error, least))
    return plane
