"""Quantiles of distributions whose cdf has no inverse in closed form."""

import math

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.likelihoods.special import floor

_HALVINGS = 26
_HALVINGS_OF_COUNTS = 34


def solve(tails, density, p, low, high):
    """The place v at which `tails(v)` are `p` and `1 - p`.

    Bisection between two bounds uses the smaller of the two tails. Two steps
    of Newton's method then give the last digits. They also give the gradient
    by `p` and by everything else that `tails` depends on.

    Args:
        tails: maps v to `(P(V <= v), P(V > v))`.
        density: maps v to the density of V.
        p: probabilities in (0, 1).
        low, high: bounds of v; numbers or tensors like p.

    Returns:
        A tensor of the shape of `tails(v)`.
    """
    fixed = ops.stop_gradient(p)
    zeros = ops.zeros_like(ops.stop_gradient(tails(fixed)[0]))
    low, high = (zeros + end for end in (low, high))
    low, high = ops.stop_gradient(low), ops.stop_gradient(high)

    def halve(_, bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        left = ops.stop_gradient(_excess(tails(middle), fixed)) < 0
        return ops.where(left, middle, low), ops.where(left, high, middle)

    low, high = ops.fori_loop(0, _HALVINGS, halve, (low, high))
    v = ops.stop_gradient(0.5 * (low + high))
    for _ in range(2):
        v = ops.stop_gradient(v)
        slope = clip(ops.stop_gradient(density(v)), 1e-30, math.inf)
        step = _excess(tails(v), p) / slope
        # If the density underflows, only bisection is used.
        size = ops.stop_gradient(ops.abs(step))
        v = v - ops.where(size < 0.1, step, ops.zeros_like(step))
    return v


def solve_count(cdf, p, low, high):
    """The smallest whole number n with `cdf(n) >= p`.

    Args:
        cdf: distribution function of whole numbers.
        p: probabilities in (0, 1).
        low: whole numbers with `cdf(low) < p`, such as -1.
        high: whole numbers with `cdf(high) >= p`.
    """
    zeros = ops.zeros_like(ops.stop_gradient(cdf(high)))
    low, high = (ops.stop_gradient(end) + zeros for end in (low, high))

    def halve(_, bounds):
        low, high = bounds
        middle = floor(0.5 * (low + high))
        enough = ops.stop_gradient(cdf(middle)) >= p
        return ops.where(enough, low, middle), ops.where(enough, middle, high)

    return ops.fori_loop(0, _HALVINGS_OF_COUNTS, halve, (low, high))[1]


def _excess(tails, p):
    below, above = tails
    return ops.where(p < 0.5, below - p, (1 - p) - above)
