"""The probability between two bounds, which may be infinite."""

import math

from keras import ops

from keras_likelihood.likelihoods.tails import log_one_minus_exp


def log_probability(distribution, low, high):
    """`log P(low < Y <= high)`, exact in both tails.

    If the range is narrow compared to the distribution, the result is density
    times width. A difference of two probabilities would not be exact.

    Args:
        distribution: a `Likelihood` of single numbers.
        low, high: tensors of the prediction's shape. If not `low < high`, the
            result has no meaning, but its gradient is finite.

    Returns:
        Tensor of the prediction's shape.
    """
    has_low, has_high = low != -math.inf, high != math.inf
    both = ops.logical_and(has_low, has_high)
    is_range = ops.logical_and(both, low < high)
    # Values that are not selected must be finite, or the gradient is NaN.
    typical = distribution.typical_outcome()
    finite = ops.where(has_low, low, ops.where(has_high, high, typical))
    low = ops.where(has_low, low, finite)
    high = ops.where(has_high, high, finite)
    middle = low + 0.5 * (high - low)

    upper = ops.where(both, middle > typical, has_low)
    at_low = distribution.log_tail(low, upper)
    at_high = distribution.log_tail(high, upper)
    wide = ops.where(upper, at_low, at_high)
    gap = wide - ops.where(upper, at_high, at_low)
    # A bound that is NaN stays NaN.
    gap = ops.where(low >= high, ops.ones_like(gap), gap)
    found = wide + log_one_minus_exp(gap)
    if not distribution.is_discrete:
        # The difference of two logarithms has a rounding error. Below a limit
        # it is larger than the error of density times width, if the density
        # is about constant.
        digits = 1e-15 if ops.dtype(gap) == "float64" else 1e-6
        limit = (digits * (1 + ops.abs(ops.stop_gradient(wide)))) ** (1 / 3)
        narrow = ops.logical_and(is_range, gap < limit)
        density = -distribution.nll(ops.where(narrow, middle, typical))
        change = ops.stop_gradient(distribution.nll(low) + density)
        narrow = ops.logical_and(narrow, ops.abs(change) < 0.5)
        width = ops.where(narrow, high - low, ops.ones_like(low))
        found = ops.where(narrow, density + ops.log(width), found)
    found = ops.where(both, found, ops.where(has_low, at_low, at_high))
    known = ops.logical_or(has_low, has_high)
    return ops.where(known, found, ops.zeros_like(found))
