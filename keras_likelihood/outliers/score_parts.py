"""The scores that `Auto` averages, and their tail probabilities."""

import numpy as np

LEVELS = (0.25, 1.0)
"""Levels of noise, relative to the deviation of a column."""
_FREEDOM = 4.0
_STEPS = 10


def robust_moments(z):
    """Mean and scatter of rows `(n, d)` under a multivariate Student's t.

    Rows far away get a low weight. The mean variance of the scatter is 1.
    """
    n, d = z.shape
    weight = np.ones(n)
    for _ in range(_STEPS):
        mean = weight @ z / weight.sum()
        centred = z - mean
        scatter = (centred * weight[:, None]).T @ centred / n
        size = max(np.trace(scatter) / d, 1e-30)
        squares = _squares(centred, scatter / size, np.sqrt(1e-3)) / size
        weight = (_FREEDOM + d) / (_FREEDOM + squares)
    return mean, scatter / size


def _squares(centred, scatter, level):
    solved = np.linalg.solve(
        scatter + level**2 * np.eye(len(scatter)), centred.T
    )
    return (centred * solved.T).sum(axis=1)


def linear_scores(z, mean, scatter):
    """Joint and element-wise errors for each level of noise.

        joint = (z - mean)' (scatter + level^2)^-1 (z - mean)
        element_j = |z_j - E[z_j | the others]| / its deviation

    Noise of the given level is added to the columns. Little noise finds rows
    that break fine correlations. Much noise finds rows far away.

    Returns:
        Joint errors `(n, levels)` and element-wise ones `(n, levels * d)`.
    """
    centred = z - mean
    joint, elements = [], []
    for level in LEVELS:
        precision = np.linalg.inv(scatter + level**2 * np.eye(len(scatter)))
        solved = centred @ precision
        joint.append((centred * solved).sum(axis=1))
        elements.append(np.abs(solved) / np.sqrt(np.diag(precision)))
    return np.stack(joint, axis=1), np.concatenate(elements, axis=1)


_GRID_POINTS = 256


def fit_marginals(z) -> dict:
    """Kernel densities of the columns of `z`, `(n, d)`, on grids.

    All kernels have the same width in `u = asinh((z - middle) / spread)`,
    which moves far values closer.
    """
    low, middle, high = np.quantile(z, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.35
    spread = np.where(spread > 0, spread, z.std(axis=0))
    u = np.arcsinh((z - middle) / spread)
    wide = 0.9 * u.std(axis=0) * len(u) ** -0.2
    begin = u.min(axis=0) - 3 * wide
    step = (u.max(axis=0) + 3 * wide - begin) / (_GRID_POINTS - 1)
    tables = [
        _log_density(column, *place)
        for column, *place in zip(u.T, begin, step, wide, strict=True)
    ]
    return {
        "middle": middle,
        "spread": spread,
        "low": begin,
        "step": step,
        "log_density": np.array(tables),
    }


def _log_density(u, begin, step, wide):
    place = np.rint((u - begin) / step).astype(int)
    count = np.bincount(place, minlength=_GRID_POINTS).astype(float)
    reach = np.arange(_GRID_POINTS) * step / wide
    kernel = np.exp(-(np.concatenate([-reach[:0:-1], reach]) ** 2) / 2)
    density = np.convolve(count, kernel, "full")
    density = density[_GRID_POINTS - 1 : 2 * _GRID_POINTS - 1] / kernel.sum()
    # This adds one row that is spread over the whole grid.
    return np.log(density + 1 / _GRID_POINTS) - np.log((len(u) + 1) * step)


def surprise(z, middle, spread, low, step, log_density) -> np.ndarray:
    """Sum over columns of `-log p(z_j)`, `(n,)`; see `fit_marginals`."""
    v = (z - middle) / spread
    place = np.clip((np.arcsinh(v) - low) / step, 0, _GRID_POINTS - 1)
    total = np.log1p(v**2).sum(axis=1) / 2
    grid = np.arange(_GRID_POINTS)
    for column, table in zip(place.T, log_density, strict=True):
        total -= np.interp(column, grid, table)
    return total


_POINTS = 64


def fit_tails(scores) -> np.ndarray:
    """Quantiles of scores `(n, k)` at tails that fall by equal factors.

    They are `(k, points)`, increasing along the last axis.
    """
    quantiles = np.quantile(scores, -np.expm1(-_levels(len(scores))), axis=0)
    return np.ascontiguousarray(quantiles.T)


def log_tails(scores, quantiles, rows: int) -> np.ndarray:
    """`-log P(S >= score)`, `(n, k)`, under a smooth fit of the scores seen.

    The logarithm is linear between the quantiles of `fit_tails`, and beyond
    the largest one. `rows` is the number of scores in the fit.
    """
    levels = _levels(rows)
    columns = zip(scores.T, quantiles, strict=True)
    return np.stack([_log_tail(s, q, levels) for s, q in columns], axis=1)


def _levels(rows):
    return np.linspace(0, np.log(rows + 1), _POINTS)


def _log_tail(scores, quantiles, levels):
    # Equal values of many rows may differ by rounding. They become one point.
    tie = 1e-6 * max(np.ptp(quantiles), 1e-300)
    group = np.concatenate([[0], np.cumsum(np.diff(quantiles) > tie)])
    count = np.bincount(group)
    at = np.bincount(group, quantiles) / count
    level = np.bincount(group, levels) / count
    found = np.interp(scores, at, level)
    if len(at) > 1:
        # The slope of the upper tenth is used, because the last points come
        # from few rows.
        low = min(int(np.searchsorted(level, np.log(10))), len(at) - 2)
        slope = (level[-1] - level[low]) / (at[-1] - at[low])
        found += slope * np.maximum(scores - at[-1], 0)
    return found
