"""Writes the tables behind `keras_likelihood.likelihoods.RobustRho`.

Run as `python tools/make_log_partition_table.py`: two to five minutes on two
cores. It needs mpmath, and prints the largest error of the table against
direct 30-digit integrals at points between the interpolation nodes.
"""

import argparse
import math
import multiprocessing
import pathlib

import mpmath as mp
import numpy as np
from keras import ops

from keras_likelihood.likelihoods import log_partition

DIGITS = 30
DEGREE = 7


def rho(square, shape):
    """The loss at x^2 = `square`, scale 1, for finite `shape >= 0`."""
    width = abs(shape - 2)
    if width == 0:
        return square / 2
    if shape == 0:
        return mp.log1p(square / 2)
    power = mp.expm1(shape / 2 * mp.log1p(square / width))
    return width / shape * power


def integral(shape):
    """Z(shape), by the trapezoidal rule after x = exp(pi/2 sinh(t)).

    The integrand then falls off doubly exponentially at both ends, for
    algebraic tails (shape 0) and for steep ones alike, so that the rule
    converges geometrically; this step is good for 18 digits or more.
    """
    step = mp.mpf(1) / 56
    tiny = mp.mpf(10) ** -(DIGITS + 4)
    total = mp.mpf(0)
    for sign, start in ((1, 0), (-1, 1)):
        k = start
        while True:
            t = sign * k * step
            x = mp.exp(mp.pi / 2 * mp.sinh(t))
            term = x * mp.cosh(t) * mp.exp(-rho(x * x, shape))
            total += term
            k += 1
            if term < tiny and k * step > 1:
                break
    return mp.pi * step * total


def shape_at(position, side):
    """The shape whose table position is `position`, on either side of 2."""
    ratio = mp.exp(mp.mpf(position))
    margin = mp.mpf(log_partition.MARGIN)
    if side == "below":
        return (2 - margin * ratio) / (1 + ratio)
    return 2 + (2 + margin) * ratio


def excess(job):
    """log Z(shape) - log Z(2) at one table position."""
    mp.mp.dps = DIGITS + 4
    position, side = job
    shape = max(shape_at(position, side), mp.mpf(0))
    return float(mp.log(integral(shape)) - mp.log(2 * mp.pi) / 2)


def rows(pool, side, low, high, pieces):
    """One row of `DEGREE + 1` power coefficients per piece of width 1/pieces.

    The local variable runs over [0, 1) within a piece.
    """
    count = round((high - low) * pieces)
    k = np.arange(DEGREE + 1)
    nodes = 0.5 - 0.5 * np.cos(math.pi * (k + 0.5) / (DEGREE + 1))
    starts = low + np.arange(count) / pieces
    jobs = [(w + n / pieces, side) for w in starts for n in nodes]
    values = np.array(pool.map(excess, jobs, chunksize=16))
    powers = np.vander(nodes, increasing=True)
    return np.linalg.solve(powers, values.reshape(count, -1).T).T


def moments():
    """Integrals of the density at equally spaced `shape / (shape + 2)`.

    With the score `psi = d rho / dz`, the first column is the exponent of the
    scale, `0.5 + 0.5 E[z psi^3] / E[psi^2]`. The second is the logarithm of
    the variance `E[z^2]` times `shape / (1 + shape)`.
    """
    share = np.arange(1025) / 1024
    shape = np.clip(2 * share / np.maximum(1 - share, 1e-9), 1e-9, None)
    a = shape[:, None]
    b = np.maximum(np.abs(a - 2), 1e-9)
    # The largest contributions to the variance are at log(z) = 0.4 / shape.
    log_z = -12 + np.linspace(0, 1, 1201) * (36 + np.minimum(1.5 / a, 300))
    log_u = np.logaddexp(0, 2 * log_z - np.log(b))
    # The density is 0 where the exponent is above 50.
    power = np.exp(np.minimum(0.5 * a * log_u, 50))
    log_weight = log_z - b / a * (power - 1)
    weight = np.exp(log_weight)
    log_score = log_z + 0.5 * a * log_u - log_u
    second = np.sum(np.exp(log_weight + 2 * log_score), axis=1)
    third = np.sum(np.exp(log_weight + log_z + 3 * log_score), axis=1)
    spread = log_weight + 2 * log_z
    highest = spread.max(axis=1, keepdims=True)
    spread = highest[:, 0] + np.log(np.exp(spread - highest).sum(axis=1))
    spread = (spread - np.log(weight.sum(axis=1))) * shape / (1 + shape)
    spread[0] = 3 * math.log(1.5) - 1
    return np.stack([0.5 + 0.5 * third / second, spread], axis=1)


def largest_error(pool, count=200):
    """Largest error in log Z at random shapes on [0, 32]."""
    rng = np.random.default_rng(0)
    shapes = np.concatenate(
        [rng.uniform(0, 4, count // 2), rng.uniform(0, 32, count // 2)]
    )
    exact = np.array(pool.map(_log_integral, shapes, chunksize=16))
    found = ops.convert_to_numpy(log_partition.log_partition(shapes))
    return np.max(np.abs(found - exact))


def _log_integral(shape):
    mp.mp.dps = DIGITS + 4
    return float(mp.log(integral(mp.mpf(shape))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=pathlib.Path, default=log_partition.TABLE_PATH
    )
    output = parser.parse_args().output
    with multiprocessing.Pool() as pool:
        table = {
            side: rows(pool, side, low, high, log_partition.PIECES)
            for side, (low, high) in log_partition.POSITIONS.items()
        }
        np.savez_compressed(output, **table, moments=moments())
        print(f"{output}: {output.stat().st_size} bytes")
        print(f"largest error on [0, 32]: {largest_error(pool):.1e}")


if __name__ == "__main__":
    main()
