"""The robust loss rho, with its gradient, to nearly full float32 precision.

With `s = (x / scale)^2`, `b = |shape - 2|`, `L = log(1 + s / b)` and `E` as
given, rho is either of

    (b / shape) E                 E = expm1(shape / 2 * L)
    (s + (s + b) E) / shape       E = expm1((shape / 2 - 1) L)

They are equal, but the first is not exact near shape 2 and the second near
shape 0. Both are `(k s + (k s + b) E) / shape` with k = 0 or 1, so the choice
of form is a choice of two coefficients that depend on the shape alone: it
costs nothing per residual when the shape is a scalar.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.custom_gradient import with_gradient
from keras_likelihood.backend.elementary import expm1, log1p, select
from keras_likelihood.likelihoods.method_calls import as_floating, widened

_FORM_CHANGE = 1.7
"""Shape above which the second form is the more accurate one."""


def rho(x, shape=1.0, scale=1.0):
    """The general robust loss of a residual.

        rho = (b / shape) ((s / b + 1)^(shape / 2) - 1)
        s = (x / scale)^2,  b = |shape - 2|

    It is half the square at shape 2, pseudo-Huber at 1, Cauchy at 0,
    Geman-McClure at -2 and Welsch at -inf, and `exp(s / 2) - 1` at +inf; all
    of these are limits that the formula reaches continuously. Float32 results
    are within a relative 2e-6, gradients by x, shape and scale within 1e-4,
    for `|x| / scale` from 1e-4 to 1e4. The derivative by shape diverges
    logarithmically at shape 2, where a large finite value replaces it. Beyond
    the range of the dtype the loss stays at its largest value and does not
    overflow. `shape` and `scale > 0` broadcast against `x`.
    """
    if isinstance(scale, int | float | np.number) and not 0 < scale < math.inf:
        raise ValueError(
            f"`scale` must be a finite number > 0. Received: {scale}"
        )
    x = as_floating(x)
    shape = ops.convert_to_tensor(shape, dtype=x.dtype)
    scale = ops.convert_to_tensor(scale, dtype=x.dtype)
    return _rho(x, shape, scale)


def evaluate(x, shape, scale, *, exact_power=False):
    """Rho, and the values that `differentiate` needs.

    With `exact_power` it uses `pow`, which takes one more pass, if the
    exponent is so large that `exp` would multiply rounding errors. Only shapes
    above 3 have such exponents at common residuals.
    """
    a, b, k = _coefficients(shape)
    inverse_a, inverse_b = 1 / a, 1 / b
    inverse_scale = 1 / scale
    farthest = _farthest(a, b)
    z = clip(x * inverse_scale, -farthest, farthest)
    s = z * z
    ratio = s * inverse_b
    log_u = log1p(ratio)
    m = 0.5 * a - k
    largest = limits(shape).exponent
    exponent = clip(m * log_u, -largest, largest)
    e = expm1(exponent)
    if exact_power:
        # The sum 1 + ratio rounds a small ratio, and the power of a large
        # shape would multiply this rounding error.
        use_power = ops.logical_and(exponent > 8, log_u > 1)
        e = ops.where(use_power, ops.power(1 + ratio, m) - 1, e)
    b_over_a = b * inverse_a
    ks = (k * inverse_a) * s
    value = ks + (ks + b_over_a) * e
    first_form = (1 - k) * inverse_b
    of_shape = (shape, a, k, inverse_a, b_over_a, first_form)
    h = exponent + k * log_u
    return value, (inverse_scale, *of_shape, z, s, h, e, value)


def differentiate(residuals, upstream, normalizer_slope=None):
    """Functions of no arguments that give the gradients of `evaluate`.

    The gradient by shape is, with `h = shape / 2 * L`,

        (sign(shape - 2) E + (rho + b / shape) h - rho + r s v / 2) / shape

    where `v = (1 + s / b)^(shape / 2 - 1)` and r is -1 for k = 1 and
    `shape / b` for k = 0. With a `normalizer_slope`, gradients are those of
    rho + log(scale) + log Z(shape), and it is the derivative of the last.
    """
    inverse_scale, shape, a, k, inverse_a, *rest = residuals
    b_over_a, first_form, z, s, h, e, value = rest
    weight = upstream * ((1 + e) * (1 / (1 + first_form * s)))
    weight_s = weight * s

    def by_x():
        return weight * z * inverse_scale

    def by_shape():
        slope = ops.sign(shape - 2) * e + _second_order(value, h, b_over_a)
        share = 0.5 * (first_form * a - k)
        total = sum_to(upstream * slope + share * weight_s, shape)
        gradient = inverse_a * total
        if normalizer_slope is None:
            return gradient
        return gradient + normalizer_slope * sum_to(upstream, shape)

    def by_scale():
        if normalizer_slope is None:
            return -sum_to(weight_s, inverse_scale) * inverse_scale
        return sum_to(upstream - weight_s, inverse_scale) * inverse_scale

    return by_x, by_shape, by_scale


def sum_to(x, like):
    """Sums `x` over the axes along which `like` was broadcast to it."""
    missing = len(x.shape) - len(like.shape)
    if missing == len(x.shape):
        return ops.sum(x)
    sizes = enumerate(like.shape, start=missing)
    axes = [i for i, size in sizes if size == 1 and x.shape[i] != 1]
    if axes:
        x = ops.sum(x, axis=axes, keepdims=True)
    return ops.sum(x, axis=list(range(missing))) if missing else x


def _second_order(value, h, b_over_a):
    """`(rho + b / a) h - rho`, by a series if the difference is not exact.

    It equals `(b / a) (h e^h - expm1(h))`, of second order in h.
    """
    direct = (value + b_over_a) * h - value
    h2 = h * h
    series = h2 * (0.5 + h * (1 / 3 + h * 0.125)) * b_over_a
    threshold = 1e-4 if ops.dtype(h) == "float64" else 0.03
    # The term that is not selected must be zero, because fused multiply-adds
    # round `direct` differently on different machines.
    return select(h2 < threshold**2, series, direct)


def _coefficients(shape):
    """`(a, b, k)`: shape, |shape - 2| (both bounded) and the form."""
    tiny, huge = limits(shape).tiny, limits(shape).huge
    a = clip(shape, -huge, huge) + tiny
    b = clip(ops.abs(shape - 2), tiny, huge)
    return a, b, ops.cast(a >= _FORM_CHANGE, ops.dtype(shape))


def _farthest(a, b):
    """The `|x / scale|` above which rho would exceed the dtype's range.

    There `(1 + s / b)^(a / 2) min(b, 1) = exp(exponent)`. Both rho and its
    derivatives are at most a few hundred times that.
    """
    tiny, huge, ratio, largest = limits(a)
    exponent = largest - 5 - ops.log(clip(b, tiny, 1.0))
    log_u = 2 * exponent / clip(a, 1.0, huge)
    s = b * ops.expm1(clip(log_u, 0.0, largest))
    return clip(ops.sqrt(s), 0.0, ratio)


class _Limits(NamedTuple):
    """Limits that keep every intermediate result finite.

    `tiny` replaces the shape 0. It is far below the spacing of floats near 1,
    so that adding it changes nothing else. `huge` replaces an infinite shape.
    Ratios of residual to scale are at most `ratio`, and rho itself is at most
    about `exp(exponent)`.
    """

    tiny: float
    huge: float
    ratio: float
    exponent: float


def limits(x):
    """The limits of the dtype of a tensor."""
    if ops.dtype(x) == "float64":
        return _Limits(3e-32, 1e20, 3e18, 690.0)
    return _Limits(1.3e-13, 1e12, 3e12, 80.0)


_rho = widened(
    with_gradient(functools.partial(evaluate, exact_power=True), differentiate)
)
