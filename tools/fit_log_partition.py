"""Fits the functions of `keras_likelihood.likelihoods.log_partition`.

Run as `python tools/fit_log_partition.py`: some seconds. Log Z, its slope and
two moments of the density are integrated in float64 and fitted by least
squares.
"""

import json
import math

import numpy as np
from keras import ops

from keras_likelihood.likelihoods import log_partition

TERMS = {
    "float32": (0, (9, (6, 3, 2), (7, 3, 2)), 9),
    "float64": (0, (16, (9, 5, 4), (9, 5, 4)), 17),
    "scale exponent": (1, (6, (4, 2, 1), (4, 2, 1)), 8),
    "log variance": (2, (8, (4, 2, 1), (4, 2, 1)), 9),
}
"""The function, the terms of G near 0, of G, Q and R below and above 2, and
the number of digits."""


def functions(shape):
    """Log Z, the scale exponent and the log of the variance, with slopes.

    The trapezoidal rule after `x = exp(pi / 2 sinh(u))`, whose integrand falls
    off doubly exponentially.
    """
    a = shape[:, None]
    b = np.maximum(np.abs(a - 2), 1e-300)
    step = 1 / 48
    u = np.arange(-4.6, 5.4, step)
    log_x = np.pi / 2 * np.sinh(u)
    s = np.exp(2 * log_x)
    log_u = np.log1p(s / b)
    # Beyond an exponent of 60 the density is negligible.
    h = np.minimum(a / 2 * log_u, 60)
    e, log_v = np.expm1(h), np.minimum((a / 2 - 1) * log_u, 60)
    rho = np.where(a > 1.5, (s + (s + b) * np.expm1(log_v)) / a, b / a * e)
    density = np.where(h < 60, np.cosh(u) * np.exp(log_x - rho), 0)
    z = density.sum(axis=1)
    small, series = np.minimum(h, 0.1), 0.0
    for k in range(14, -1, -1):
        series = series * small + (k + 1) / math.factorial(k + 2)
    second = np.where(h < 0.1, small**2 * series, h * np.exp(h) - e)
    sign = np.where(a < 2, -1, 1)
    by_shape = sign * e + b / a * second
    by_shape = by_shape - sign * a / 2 * s / (b + s) * np.exp(h)
    slope = -np.sum(density * by_shape / a, axis=1) / z
    log_score = np.where(density > 0, log_x + log_v, 0)
    square = np.sum(density * np.exp(2 * log_score), axis=1)
    cube = np.where(density > 0, np.exp(log_x + 3 * log_score), 0)
    exponent = 0.5 + 0.5 * np.sum(density * cube, axis=1) / square
    variance = np.sum(density * s, axis=1) / z
    log_z = np.log(z * np.pi * step)
    spread = np.log(variance) * shape / (1 + shape)
    return (log_z, slope), (exponent, None), (spread, None)


def shapes(low, high):
    """Shapes that are dense near the ends of an interval."""
    share = 0.5 - 0.5 * np.cos(np.pi * (np.arange(300) + 0.5) / 300)
    near = np.concatenate([share**2, np.logspace(-12, -3, 60)])
    if high == math.inf:
        return low / (1 - near[near < 1 - 1e-9])
    ends = low + (high - low) * near, high - (high - low) * near
    return np.unique(np.concatenate([*ends, (low + high) / 2 * share]))


def only(i, sizes, unit):
    """A fit whose coefficients are zero except for one interval."""
    parts = np.split(unit, np.cumsum(sizes)[:-1])
    zeros = [np.zeros_like(part) for part in parts]
    return [parts if j == i else zeros for j in range(4)]


def fit(i, column, terms, digits):
    """Coefficients `[[c], G, Q, R]` on one interval."""
    low, high = log_partition.ENDS[i : i + 2]
    shape = shapes(low, high)
    shape = shape[(shape >= max(low, 0.01 * column)) & (shape < high)]
    value, slope = functions(shape)[column]
    sizes = (1, terms[0], 1, 1) if i < 2 else (1, *terms[i - 1])
    tensor = ops.convert_to_tensor(shape)
    columns = []
    for unit in np.eye(sum(sizes))[: 1 + terms[0] if i < 2 else None]:
        found = log_partition.evaluate(
            tensor, *log_partition.columns_of(only(i, sizes, unit))
        )
        columns.append([ops.convert_to_numpy(x) + 0 * shape for x in found])
    values, slopes = np.moveaxis(np.array(columns), 0, -1)
    if slope is not None:
        weight = 0.03 / (1 - 0.3 * np.log(np.minimum(np.abs(shape - 2), 1)))
        values = np.concatenate([values, slopes * weight[:, None]])
        value = np.concatenate([value, slope * weight])
    norm = np.abs(values).max(axis=0)
    found = np.linalg.lstsq(values / norm, value, rcond=1e-14)[0] / norm
    error = np.abs(values @ found - value)[: len(shape)].max()
    print(f"from {low} to {high} the largest error is {error:.0e}")
    padded = np.concatenate([found, np.zeros(sum(sizes) - len(found))])
    parts = np.split(padded, np.cumsum(sizes)[:-1])
    return [[float(f"{x:.{digits}g}") for x in part] for part in parts]


def main():
    fits = {}
    for name, options in TERMS.items():
        print(name)
        fits[name] = [fit(i, *options) for i in range(4)]
    log_partition.FITS_PATH.write_text(json.dumps(fits) + "\n")


if __name__ == "__main__":
    main()
