"""Numerical quantiles, for tails without a closed-form inverse."""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.special import floor

_MOST_STEPS = 60


def solve(
    log_tail: Callable[..., Tensor],
    nll: Callable[[Tensor], Tensor],
    log_p: Tensor,
    upper: Tensor,
    low: Tensor,
    high: Tensor,
    start: Tensor | None = None,
) -> Tensor:
    """The value v at which a tail has the probability `exp(log_p)`.

    Newton's method on the logarithm of the tail, inside a shrinking bracket.
    The bracket is bisected if a step would leave it, or if the last step did
    not halve the error: where the tail underflows, Newton steps may be tiny.
    The loop stops when all entries have converged. The last step provides the
    gradient with respect to `log_p` and everything that `log_tail` depends on.

    `log_tail` and `nll` map v to the logarithm of the tail, and to the
    negative logarithm of the density. `low` and `high` are bounds of v.
    """
    fixed = ops.stop_gradient(log_p)
    wide = ops.dtype(log_p) == "float64"
    tolerance = (1e-13 if wide else 1e-6) * (1 + ops.abs(fixed))
    start = 0.5 * (low + high) if start is None else start
    sign = 1 - 2 * ops.cast(upper, ops.dtype(fixed))
    zeros = ops.zeros_like(ops.stop_gradient(fixed + sign + low + high + start))
    low, high, v = (ops.stop_gradient(x + zeros) for x in (low, high, start))
    sign = sign + zeros

    def step(v: Tensor) -> Any:
        value = log_tail(v)
        slope = ops.exp(-ops.stop_gradient(nll(v) + value))
        # An outcome that underflows to 0 may have no density at all.
        slope = ops.where(slope > 1e-30, slope, 1e-30)
        return sign * (value - log_p), clip(slope, 0.0, 1e30)

    def advance(count: Any, v: Any, low: Any, high: Any, *state: Any) -> Any:
        excess, slope = (ops.stop_gradient(x) for x in step(v))
        size = ops.abs(excess)
        low = ops.where(excess < 0, v, low)
        high = ops.where(excess > 0, v, high)
        newton = v - excess / slope
        inside = ops.logical_and(newton > low, newton < high)
        is_good = ops.logical_and(inside, size < 0.5 * state[0])
        moved = ops.where(is_good, newton, 0.5 * (low + high))
        open_ = ops.logical_and(size > tolerance, ops.abs(moved - v) > 0)
        v = ops.where(open_, moved, v)
        return count + 1, v, low, high, size, ops.any(open_)

    def is_open(count: Any, *state: Any) -> Tensor:
        return ops.logical_and(state[-1], count < _MOST_STEPS)

    state = (0, v, low, high, zeros + math.inf, ops.any(zeros == 0))
    state = ops.while_loop(is_open, advance, state)
    v, low, high = (ops.stop_gradient(x) for x in state[1:4])
    excess, slope = step(v)
    change = excess / slope
    # Where the density underflows, only the bracket is known. The value
    # stays inside it, and the gradient is that of the step.
    far = ops.stop_gradient(ops.abs(change)) > 0.1 * (1 + ops.abs(v))
    change = ops.where(far, ops.zeros_like(change), change)
    fixed = ops.stop_gradient(change)
    return clip(v - fixed, low, high) - (change - fixed)


def solve_count(
    log_tail: Any, log_p: Tensor, upper: Tensor, low: Tensor, high: Tensor
) -> Tensor:
    """The smallest whole number with `P(Y <= y)` of at least the given value.

    `low` is a whole number that is too small, `high` one that is large enough.
    """
    zeros = ops.zeros_like(ops.stop_gradient(low + high))
    low, high = (ops.stop_gradient(end + zeros) for end in (low, high))

    def halve(count: Any, low: Any, high: Any) -> Any:
        middle = floor(0.5 * (low + high))
        found = log_tail(middle)
        enough = ops.where(upper, found <= log_p, found >= log_p)
        low = ops.where(enough, low, middle)
        return count + 1, low, ops.where(enough, middle, high)

    def is_open(count: Any, low: Any, high: Any) -> Tensor:
        # Beyond the integers that the dtype can represent, middle is an end.
        middle = floor(0.5 * (low + high))
        apart = ops.logical_and(middle > low, middle < high)
        return ops.logical_and(ops.any(apart), count < 2 * _MOST_STEPS)

    return ops.while_loop(is_open, halve, (0, low, high))[2]
