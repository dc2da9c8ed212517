"""The subspace of least cost, by weighted principal components."""

import dataclasses

import numpy as np

from keras_likelihood.robust import starts
from keras_likelihood.robust.criteria import DataScale

_SUBSETS, _SCREENING_ROWS, _KEEP = 100, 300, 3


@dataclasses.dataclass
class Subspace:
    """A mean `(d,)`, orthonormal rows `(q, d)`, a floor and their cost."""

    mean: np.ndarray
    basis: np.ndarray
    floor: float
    cost: float = 0.0


def squared_distances(x, mean, basis):
    """Squared distances of the rows of x to the subspace, `(n,)`."""
    centred = x - mean
    across = centred - centred @ basis.T @ basis
    return (across**2).sum(axis=1)


def solve(x, components, restraint, floor, rng) -> Subspace:
    """The minimum with the least median distance, of several starts.

    By cost alone a dense cluster of outliers would often get its own
    direction, because each outlier costs `m + restraint` logarithms.
    """
    unit = np.ones(len(x))
    mean, basis = _principal(x, unit, components)
    across = x.shape[1] - components
    least = floor * _spread(x)
    if across == 0 or np.isinf(restraint) or len(x) < components + 2:
        squares = squared_distances(x, mean, basis).sum()
        cells = max(across, 1) * max(len(x) - components - 1, 1)
        return Subspace(mean, basis, max(np.sqrt(squares / cells), least))
    begin: list[tuple] = [(mean, basis), _spherical(x, components)]
    begin += _through_subsets(x, components, rng)
    reached = [
        _descend(x, mean, basis, restraint, least) for mean, basis in begin
    ]
    return min(reached, key=lambda found: _middle(x, found))


def _middle(x, found):
    return np.median(squared_distances(x, found.mean, found.basis))


def _spread(x):
    spread = np.sqrt(((x - np.median(x, axis=0)) ** 2).mean())
    return spread if spread > 0 else 1.0


def _principal(x, weight, components):
    """Weighted mean and leading principal directions."""
    mean = weight @ x / weight.sum()
    rows = np.sqrt(weight)[:, None] * (x - mean)
    if x.shape[1] <= len(x):
        _, vectors = np.linalg.eigh(rows.T @ rows)
        basis = vectors[:, ::-1].T[:components]
    else:
        basis = np.linalg.svd(rows, full_matrices=False)[2][:components]
    # The sign is that of scikit-learn: the largest entry is positive.
    largest = np.abs(basis).argmax(axis=1, keepdims=True)
    return mean, basis * np.sign(np.take_along_axis(basis, largest, axis=1))


def _spherical(x, components):
    """Principal directions of the rows brought to length one."""
    center = np.median(x, axis=0)
    length = np.linalg.norm(x - center, axis=1)
    weight = 1 / np.maximum(length, 1e-9 * length.max() + 1e-300) ** 2
    rows = np.sqrt(weight)[:, None] * (x - center)
    _, basis = _principal(
        np.vstack([rows, -rows]), np.ones(2 * len(x)), components
    )
    return center, basis


def _through_subsets(x, components, rng):
    """The best of the subspaces through small subsets."""
    sample = x[np.lexsort(x.T)]
    if len(x) > _SCREENING_ROWS:
        rows = starts.draw_rows(np.ones(len(x)), _SCREENING_ROWS, rng)
        sample = sample[np.sort(rows)]
    unit = np.ones(len(sample))
    found = []
    for rows in starts.draw_rows(unit, (_SUBSETS, components + 1), rng):
        mean, basis = _principal(sample[rows], unit[rows], components)
        middle = np.median(squared_distances(sample, mean, basis))
        found.append((middle, mean, basis))
    found.sort(key=lambda entry: entry[0])
    return [(mean, basis) for _, mean, basis in found[:_KEEP]]


def _descend(x, mean, basis, restraint, least, steps=200):
    """Updates scales, floor and subspace in turn. The cost never rises.

    The floor counts once for each degree of freedom that the subspace leaves.
    Otherwise a subspace through a few examples would be the best.
    """
    components, d = basis.shape
    criterion = DataScale(d - components)
    freedom = criterion.dimensions * (len(x) - components - 1)
    squares = squared_distances(x, mean, basis)
    floor2 = max(np.median(squares) / criterion.dimensions, least**2)
    cost = np.inf
    for _ in range(steps):
        weight = criterion.weight(squares / floor2, restraint)
        mean, basis = _principal(x, weight, components)
        squares = squared_distances(x, mean, basis)
        floor2 = max(weight @ squares / freedom, least**2)
        before = cost
        cost = criterion.rho(squares / floor2, restraint).sum()
        cost += freedom * np.log(floor2) / 2
        if before - cost < 1e-10 * len(x):
            break
    return Subspace(mean, basis, float(np.sqrt(floor2)), cost)
