"""A detector that averages the tail probabilities of several scores."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.outliers.scale_detector import AutoencoderScale

LEVELS = (0.25, 1.0)
"""Noise levels, relative to the standard deviation of a column."""
_FREEDOM = 4.0
_STEPS = 10


def robust_moments(z: Any) -> Any:
    """Mean and scatter `(d, d)`, of mean variance 1, under Student's t."""
    n, d = z.shape
    weight = np.ones(n)
    for _ in range(_STEPS):
        mean = weight @ z / weight.sum()
        centred = z - mean
        scatter = (centred * weight[:, None]).T @ centred / n
        size = max(np.trace(scatter) / d, 1e-30)
        noisy = scatter / size + 1e-3 * np.eye(d)
        squares = (centred * np.linalg.solve(noisy, centred.T).T).sum(axis=1)
        weight = (_FREEDOM + d) / (_FREEDOM + squares / size)
    return mean, scatter / size


def linear_scores(z: Any, mean: Any, scatter: Any) -> Any:
    """Joint `(n, levels)` and element-wise `(n, levels * d)` errors.

        joint = (z - mean)' (scatter + level^2)^-1 (z - mean)
        element_j = |z_j - E[z_j | the others]| / its deviation

    Little noise finds broken fine correlations, much noise rows far away.
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
_MARGINALS = ("middle", "spread", "low", "step", "log_density")


def fit_marginals(z: Array) -> dict[str, Any]:
    """Kernel densities of the columns of `z`, `(n, d)`, on grids."""
    # Kernels have a constant width in u, where far values are closer.
    low, middle, high = np.quantile(z, [0.25, 0.5, 0.75], axis=0)
    spread = (high - low) / 1.35
    spread = np.where(spread > 0, spread, z.std(axis=0))
    u = np.arcsinh((z - middle) / spread)
    wide = 0.9 * u.std(axis=0) * len(u) ** -0.2
    begin = u.min(axis=0) - 3 * wide
    step = (u.max(axis=0) + 3 * wide - begin) / (_GRID_POINTS - 1)
    columns = zip(u.T, begin, step, wide, strict=True)
    density = np.array([_log_density(*column) for column in columns])
    return dict(
        zip(_MARGINALS, (middle, spread, begin, step, density), strict=True)
    )


def _log_density(u: Array, begin: float, step: float, wide: float) -> Array:
    place = np.rint((u - begin) / step).astype(int)
    count = np.bincount(place, minlength=_GRID_POINTS).astype(float)
    reach = np.arange(_GRID_POINTS) * step / wide
    kernel = np.exp(-(np.concatenate([-reach[:0:-1], reach]) ** 2) / 2)
    density = np.convolve(count, kernel, "valid") / kernel.sum()
    # One more row is spread over the whole grid.
    return np.log(density + 1 / _GRID_POINTS) - np.log((len(u) + 1) * step)


def surprise(z: Array, tables: dict[str, Any]) -> np.ndarray:
    """Sum over columns of `-log p(z_j)`, `(n,)`; see `fit_marginals`."""
    middle, spread, low, step, log_density = (tables[n] for n in _MARGINALS)
    v = (z - middle) / spread
    place = np.clip((np.arcsinh(v) - low) / step, 0, _GRID_POINTS - 1)
    total = np.log1p(v**2).sum(axis=1) / 2
    grid = np.arange(_GRID_POINTS)
    for column, table in zip(place.T, log_density, strict=True):
        total -= np.interp(column, grid, table)
    return total


_POINTS = 64


def fit_tails(scores: Array) -> np.ndarray:
    """Quantiles `(k, points)` of scores `(n, k)`, denser in the upper tail."""
    return np.quantile(scores, -np.expm1(-_levels(len(scores))), axis=0).T


def log_tails(scores: Array, quantiles: Array, rows: int) -> np.ndarray:
    """`-log P(S >= score)`, `(n, k)`, linear between the quantiles."""
    levels = _levels(rows)
    columns = zip(scores.T, quantiles, strict=True)
    return np.stack([_log_tail(s, q, levels) for s, q in columns], axis=1)


def _levels(rows: int) -> Array:
    return np.linspace(0, np.log(rows + 1), _POINTS)


def _log_tail(scores: Array, quantiles: Array, levels: Array) -> Array:
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


class AutoDetector(AutoencoderScale):
    """Finds outliers of several kinds with several likelihoods.

    The kind of outliers in a table is not known beforehand. So four kinds of
    score are averaged with equal weights:

        joint     error of the row under the best linear denoiser, at two
                  noise levels
        elements  error of each column given the others, under the same
                  denoiser; mean and maximum
        columns   -log density of each column, summed
        deep      log scale of `AutoencoderScale`

    Each is the logarithm of the score's tail probability among the training
    rows.
    Prior work: averages of calibrated detectors (Aggarwal and Sathe, 2015),
    conditional residuals and tails by columns (Li and others, 2022, ECOD).

    ```python
    detector = AutoDetector(random_state=0).fit(x)
    strangest = detector.decision_scores_.argsort()[::-1][:10]
    detector.kinds(x_new)
    ```

    Args:
        **options: options of `AutoencoderScale`, for the deep part.
    """

    _more_arrays = (
        "moments_mean_",
        "moments_scatter_",
        "element_tails_",
        "part_tails_",
        *(f"marginal_{name}_" for name in _MARGINALS),
    )
    KINDS = ("joint", "elements", "columns", "deep")

    def _fit(self, x: Any) -> Any:
        deep = super()._fit(x)
        z, excess = self._standardise(x)
        z = z.astype("float64")
        self.moments_mean_, self.moments_scatter_ = robust_moments(z)
        for name, value in fit_marginals(z).items():
            setattr(self, f"marginal_{name}_", value)
        linear = self._linear(z)
        self.element_tails_ = fit_tails(linear[1])
        parts = self._parts(z, linear, deep - excess, len(z))
        self.part_tails_ = fit_tails(parts)
        return self._combine(parts, len(z)).mean(axis=1) + excess

    def _score(self, x: Any) -> Any:
        z, excess = self._standardise(x)
        return self._kinds(z).mean(axis=1) + excess

    def kinds(self, X: Any) -> dict[str, Any]:  # noqa: N803
        """Scores of rows, `(n,)` each, by the kind of outlier in `KINDS`.

        They are about 1 on average for rows like the training rows.
        """
        z, _ = self._standardise(self._check(X, reset=False))
        return dict(zip(self.KINDS, self._kinds(z).T, strict=True))

    def _kinds(self, z: Any) -> Any:
        deep = super()._predict(z)
        z, rows = z.astype("float64"), len(self.decision_scores_)
        return self._combine(self._parts(z, self._linear(z), deep, rows), rows)

    def _linear(self, z: Any) -> Any:
        return linear_scores(z, self.moments_mean_, self.moments_scatter_)

    def _parts(self, z: Any, linear: Any, deep: Any, rows: Any) -> Any:
        """All scores, one per column; `rows` is the number of training rows."""
        joint, elements = linear
        elements = log_tails(elements, self.element_tails_, rows)
        elements = elements.reshape(len(z), len(LEVELS), -1)
        tables = {n: getattr(self, f"marginal_{n}_") for n in _MARGINALS}
        columns = surprise(z, tables)
        return np.column_stack(
            [joint, elements.mean(axis=2), elements.max(axis=2), columns, deep]
        )

    def _combine(self, parts: Any, rows: Any) -> Any:
        """Tails of the four kinds, `(n, 4)`."""
        ends = len(LEVELS), 3 * len(LEVELS), -1
        kinds = np.split(log_tails(parts, self.part_tails_, rows), ends, axis=1)
        return np.stack([kind.mean(axis=1) for kind in kinds], axis=1)
