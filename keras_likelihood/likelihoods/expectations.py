"""Moments and information, by sums over cells between quantiles.

The outcomes are divided into cells at quantiles of both tails, down to a
probability of e^-64. Within a cell the density is integrated by Gauss-Legendre
quadrature, or its values at whole numbers are summed. The sums are divided by
the total probability. If the contributions of the cells decrease along a tail,
its rest is added as a geometric series. Otherwise a moment is infinite, or NaN
if both tails diverge.
"""

import math
from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.special import floor

_DEPTHS = np.r_[
    [0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1, 1.25, 1.5, 1.75],
    np.r_[2:5:0.5, 5:14, 14:24:2, 24:65:4],
]
"""Values of `log(0.5 / probability of a tail)`."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_BLOCKS = 4


def quantile_edges(distribution: Any) -> Tensor:
    """Quantiles of both tails in increasing order, on a new first axis."""
    like = distribution.prediction
    shape = (-1,) + (1,) * len(like.shape)
    depths = np.concatenate([_DEPTHS[::-1], [0.0], _DEPTHS]).reshape(shape)
    upper = np.arange(len(depths)).reshape(shape) > len(_DEPTHS)
    edges = distribution.tail_quantile(
        ops.convert_to_tensor(math.log(0.5) - depths, dtype=like.dtype),
        ops.convert_to_tensor(upper),
    )
    return ops.stop_gradient(clip(edges, -1e36, 1e36))


def _cells(distribution: Any) -> tuple[Tensor, Tensor]:
    """Outcomes and weights, `(cells, outcomes in a cell, ...)`."""
    edges = distribution.edges()
    step = distribution.step
    if distribution.is_discrete:
        edges = ops.concatenate([edges[:1] - step, edges], axis=0)
    low, high = edges[:-1, None], edges[1:, None]
    shape = (1, -1) + (1,) * (len(edges.shape) - 1)
    if not distribution.is_discrete:
        x, w = (
            ops.convert_to_tensor(v.reshape(shape), dtype=edges.dtype)
            for v in (0.5 + 0.5 * _NODES, 0.5 * _WEIGHTS)
        )
        return low + x * (high - low), w * (high - low)
    # Each block of whole numbers in (low, high] is represented by its middle,
    # or by both neighbours if the middle is not a whole number.
    low, high = ops.round(low / step), ops.round(high / step)
    size = -floor(-(high - low) / _BLOCKS)
    block = np.arange(2 * _BLOCKS).reshape(shape)
    first = low + size * ops.convert_to_tensor(block // 2, dtype=edges.dtype)
    count = clip(high - first, 0.0, math.inf)
    count = ops.where(count < size, count, size)
    middle = first + 0.5 * (count + 1)
    is_even = ops.convert_to_tensor(block % 2 == 0)
    y = ops.where(is_even, floor(middle), -floor(-middle))
    return step * ops.where(y < high, y, high), 0.5 * count


def _shares(distribution: Any) -> tuple[Tensor, Tensor]:
    """Outcomes, and their probabilities, which sum to 1."""
    y, weights = (ops.stop_gradient(x) for x in _cells(distribution))
    is_used = weights > 0
    y = ops.where(is_used, y, distribution.typical_outcome())
    log_share = ops.log(ops.where(is_used, weights, 1.0)) - distribution.nll(y)
    # Outcomes may be rounded to an impossible value at the end of the range.
    is_used = is_used & ~ops.isnan(log_share)
    log_share = ops.where(is_used, log_share, -math.inf)
    largest = ops.max(log_share, axis=(0, 1), keepdims=True)
    shares = ops.exp(log_share - ops.stop_gradient(largest))
    return y, shares / ops.sum(shares, axis=(0, 1), keepdims=True)


def moments(distribution: Any, function: Any = None) -> tuple[Tensor, Tensor]:
    """Mean and variance of an increasing function of the outcome."""
    y, shares = _shares(distribution)
    y = y if function is None else function(y)
    start = ops.stop_gradient(y[y.shape[0] // 2, 0])
    # Values of probability 0 may have overflowed.
    y = ops.where(shares > 0, y, start)
    below, above = _sums(shares * (y - start))
    mean = start + below + above
    finite = ops.where(ops.isfinite(mean), mean, start)
    variance = sum(_sums(shares * ops.square(y - finite)))
    variance = ops.where(ops.abs(mean) == math.inf, math.inf, variance)
    return mean, ops.where(ops.isnan(mean), mean, variance)


def _sums(terms: Tensor) -> list[Tensor]:
    """Sums over the lower and over the upper cells, including tails."""
    cells = ops.sum(terms, axis=1)
    size = ops.stop_gradient(ops.sum(ops.abs(cells), axis=0))
    half = cells.shape[0] // 2

    def total(part: Tensor, last: Tensor, before: Tensor) -> Tensor:
        # Cells at the end of a range may be empty.
        counts = (ops.abs(last) > 1e-6 * size) & (before != 0)
        ratio = last / ops.where(counts, before, 1.0)
        diverges = counts & ~(ratio < 0.985)
        ratio = ops.where(diverges, 0.0, clip(ratio, 0.0, 0.985))
        rest = ops.where(counts, last * ratio / (1 - ratio), 0.0)
        finite = ops.sum(part, axis=0) + rest
        return ops.where(diverges, ops.sign(last) * math.inf, finite)

    lower = total(cells[:half], cells[0], cells[1])
    return [lower, total(cells[half:], cells[-1], cells[-2])]


def information(distribution: Any) -> Tensor:
    """Fisher information of the prediction, without gradient."""
    y, shares = _shares(distribution)
    every = ops.broadcast_to(distribution.prediction, ops.shape(y))

    def fixed(value: Any) -> Tensor:
        # The first two axes are the cells and their outcomes.
        value = value[None, None] if len(value.shape) else value
        return ops.stop_gradient(value)

    _, (score,) = value_and_gradient(
        lambda p: distribution.map_values(fixed, prediction=p).nll(y),
        [ops.stop_gradient(every)],
    )
    square = ops.where(shares > 0, shares * ops.square(score), 0.0)
    return ops.stop_gradient(ops.sum(square, axis=(0, 1)))
