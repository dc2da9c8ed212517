"""Fits the Gaussian process beside the networks of a small table."""

import numpy as np
from scipy import linalg, optimize, stats

from keras_likelihood.backend.types import Array
from keras_likelihood.tables.gaussian_process import GaussianProcess, matern
from keras_likelihood.tables.table_features import TableFeatures

MOST_ROWS = 3000
"""Larger tables have no Gaussian process: networks are better there."""
_STORED, _FITTED = 1000, 500
"""Maximum number of rows that predict, and that choose the lengths."""
_LEAST_NOISE = 1e-4
"""Relative to the variance of the targets. float32 needs some noise."""
_WEIGHTS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95)
_GAIN = 1.0
"""Smallest improvement of the sum of the held-out NLLs."""


def fit_process(
    features: TableFeatures,
    inputs: Array,
    y: Array,
    weight: Array,
    fold: Array,
    random: np.random.Generator,
) -> tuple[GaussianProcess, Array]:
    """Fits a process.

    Args:
        features: the layer that made `inputs`.
        inputs: its output for the training rows, `(n, features)`.
        y, weight: targets and weights, `(n,)`.
        fold: the fold of each row, `(n,)`.
        random: random generator.

    Returns:
        The process, and its out-of-fold `(mean, df, scale)`, `(n, 3)`.
    """
    columns = features.without_bins(inputs.shape[1])
    x = inputs[:, columns].astype("float64")
    centre, spread = y.mean(), y.std()
    z, noise_unit = (y - centre) / spread, weight.mean() / weight
    order = random.permutation(len(y))
    some, used = order[:_FITTED], order[:_STORED]
    inverse, signal, noise = _fit_kernel(x[some], z[some], noise_unit[some])
    x *= inverse
    covariance = signal * matern(x[used], x[used], np)[0]
    covariance[np.diag_indices(len(used))] += noise * noise_unit[used]
    root = linalg.cholesky(covariance, lower=True)
    whitening = linalg.solve_triangular(root, np.eye(len(used)), lower=True).T
    precision = whitening @ whitening.T
    slopes = precision @ z[used]
    k = signal * matern(x, x[used], np)[0]
    mean = k @ slopes
    variance = np.maximum(signal - ((k @ whitening) ** 2).sum(axis=1), 0)
    for each in np.unique(fold[used]):
        # The rows of a fold, given the other folds.
        at = np.flatnonzero(fold[used] == each)
        inner = np.linalg.inv(precision[np.ix_(at, at)])
        mean[used[at]] = z[used[at]] - inner @ slopes[at]
        own = noise * noise_unit[used[at]]
        variance[used[at]] = np.maximum(np.diag(inner) - own, 0)
    deviation = np.sqrt(variance + noise)

    def corrected(values: Array) -> tuple[float, Array]:
        df, scale = np.exp(np.clip(values, -5, 5))
        return 2 + df, scale * deviation

    def nll(values: Array) -> float:
        df, scale = corrected(values)
        found = -stats.t.logpdf((z - mean) / scale, df) + np.log(scale)
        return float(np.average(found, weights=weight))

    found = optimize.minimize(nll, [2.0, 0.0], method="Nelder-Mead", tol=1e-3)
    df, scale = corrected(found.x)
    process = GaussianProcess(len(used), columns, name="gaussian_process")
    units = centre, spread, signal, noise, scale[0] / deviation[0], df
    values = inverse, x[used], slopes[:, None], whitening, np.array(units)
    names = "inverse_lengths", "stored", "slopes", "whitening", "units"
    for name, value in zip(names, values, strict=True):
        getattr(process, name).assign(value.astype("float32"))
    mean, scale = centre + spread * mean, spread * scale
    return process, np.stack([mean, np.full_like(mean, df), scale], axis=1)


def best_weight(networks: Array, process: Array, weight: Array) -> float:
    """The weight of a process, from held-out NLLs of rows; 0 for none."""
    tried = [
        np.average(_pooled_nll(networks, process, w), weights=weight)
        for w in _WEIGHTS
    ]
    least = np.average(networks, weights=weight) - _GAIN / len(weight)
    return _WEIGHTS[int(np.argmin(tried))] if min(tried) < least else 0.0


def with_process(
    networks: dict[str, Array],
    process: dict[str, Array],
    values: dict[str, Array],
    last: float,
) -> dict[str, Array]:
    """Held-out results of the networks and a process with weight `last`.

    `process` has the process' own results, and `values` its parameters.
    """
    found = dict(networks)
    for name, value in process.items():
        found[name] = (1 - last) * networks[name] + last * value
    found["nll"] = _pooled_nll(networks["nll"], process["nll"], last)
    for name, value in values.items():
        found[name] = np.concatenate([networks[name], value], axis=1)
    return found | {"prediction": found["mean"]}


def _pooled_nll(networks: Array, process: Array, weight: float) -> Array:
    """The NLL of a mixture, from those of its two parts."""
    parts = np.log1p(-weight) - networks, np.log(weight) - process
    return -np.logaddexp(*parts)


def _fit_kernel(
    x: Array, y: Array, noise_unit: Array
) -> tuple[Array, float, float]:
    """Inverse lengths, variance and noise of the highest posterior density.

    The logarithms of the inverse lengths have a normal prior, so that many
    columns do not overfit.
    """
    rows, columns = x.shape
    start, strength = -0.5 * np.log(columns), max(1.0, columns / 20)

    def loss(values: Array) -> tuple[float, Array]:
        inverse, (signal, noise) = np.exp(values[:-2]), np.exp(values[-2:])
        z = x * inverse
        k, slope = matern(z, z, np)
        covariance = signal * k
        covariance[np.diag_indices(rows)] += noise * noise_unit
        root = linalg.cholesky(covariance, lower=True, check_finite=False)
        precision, _ = linalg.lapack.dpotri(root, lower=1)
        precision += np.tril(precision, -1).T
        slopes = precision @ y
        found = 0.5 * y @ slopes + np.log(np.diag(root)).sum()
        gradient = 0.5 * (precision - np.outer(slopes, slopes))
        by_square = gradient * slope * signal
        sums = (z * z * by_square.sum(axis=1)[:, None]).sum(axis=0)
        off = values[:-2] - start
        by_inverse = 4 * (sums - (z * (by_square @ z)).sum(axis=0))
        by_noise = noise * (np.diag(gradient) * noise_unit).sum()
        by_signal = signal * (gradient * k).sum()
        by_inverse += 2 * strength * off
        found += strength * (off**2).sum()
        return found, np.r_[by_inverse, by_signal, by_noise]

    bounds = [(start - 5, start + 3)] * columns
    bounds += [(-4, 4), (np.log(_LEAST_NOISE), 1)]
    first = np.r_[np.full(columns, start - 0.3), 0.0, np.log(0.1)]
    found = optimize.minimize(
        loss, first, jac=True, bounds=bounds, options={"maxiter": 60}
    )
    signal, noise = np.exp(found.x[-2:])
    return np.exp(found.x[:-2]), float(signal), float(noise)
