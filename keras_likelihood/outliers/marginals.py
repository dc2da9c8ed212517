"""Densities of the values in each column."""

import numpy as np

_POINTS = 256


def fit_marginals(z) -> dict:
    """Kernel densities of the columns of `z`, `(n, d)`.

    All kernels have the same width in `u = asinh((z - middle) / spread)`,
    which moves far values closer.

    Returns:
        A dict of arrays: `middle`, `spread`, `low` and `step` of the grid,
        `(d,)`, and `log_density` on it, `(d, points)`.
    """
    low, middle, high = np.quantile(z, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.35
    spread = np.where(spread > 0, spread, z.std(axis=0))
    u = np.arcsinh((z - middle) / spread)
    wide = 0.9 * u.std(axis=0) * len(u) ** -0.2
    begin = u.min(axis=0) - 3 * wide
    step = (u.max(axis=0) + 3 * wide - begin) / (_POINTS - 1)
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
    count = np.bincount(place, minlength=_POINTS).astype(float)
    reach = np.arange(_POINTS) * step / wide
    kernel = np.exp(-(np.concatenate([-reach[:0:-1], reach]) ** 2) / 2)
    density = np.convolve(count, kernel, "full")
    density = density[_POINTS - 1 : 2 * _POINTS - 1] / kernel.sum()
    # This adds one row that is spread over the whole grid.
    return np.log(density + 1 / _POINTS) - np.log((len(u) + 1) * step)


def surprise(z, middle, spread, low, step, log_density) -> np.ndarray:
    """Sum over columns of `-log p(z_j)`, `(n,)`; see `fit_marginals`."""
    v = (z - middle) / spread
    place = np.clip((np.arcsinh(v) - low) / step, 0, _POINTS - 1)
    total = np.log1p(v**2).sum(axis=1) / 2
    grid = np.arange(_POINTS)
    for column, table in zip(place.T, log_density, strict=True):
        total -= np.interp(column, grid, table)
    return total
