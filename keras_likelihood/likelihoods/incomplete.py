"""The incomplete gamma and beta functions, differentiable in all arguments.

Both are tails of a unimodal density. The tail that does not contain the mode is
integrated by quadrature, in a coordinate in which it decreases smoothly. So
small tails are accurate, and the gradients with respect to all arguments.
"""

from typing import Any

from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.quadrature import log_survival
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    relative_entropy,
    remainder_and_slope,
    smallest,
    with_slopes,
)
from keras_likelihood.likelihoods.tails import both_tails


@with_slopes
def log_gamma_density(a: Tensor, x: Tensor) -> Any:
    """Log of the density of `log(X)` at `log(x)`, X as in `gamma_tails`."""
    entropy, log_ratio = relative_entropy(a, x, x - a)
    remainder, slope = remainder_and_slope(a)
    value = 0.5 * ops.log(a) - HALF_LOG_2_PI - entropy - remainder
    return value, 0.5 / a - log_ratio - slope, (a - x) / x


@with_slopes
def log_beta_density(
    a: Tensor, b: Tensor, x: Tensor, rest: Tensor, distance: Tensor
) -> Any:
    """Log of the density of the log-odds of X at x, X as in `beta_tails`.

    The `distance` is `b x - a rest`, which callers may know more accurately.
    """
    n = a + b
    entropy_a, ratio_a = relative_entropy(a, n * x, distance)
    entropy_b, ratio_b = relative_entropy(b, n * rest, -distance)
    (at_a, slope_a), (at_b, slope_b), (at_n, slope_n) = (
        remainder_and_slope(count) for count in (a, b, n)
    )
    smaller, larger = ops.where(a < b, a, b), ops.where(a < b, b, a)
    spread = ops.log(smaller / (1 + smaller / larger))
    value = 0.5 * spread - HALF_LOG_2_PI - entropy_a - entropy_b
    value = value - (at_a + at_b - at_n)
    of_n = slope_n - 0.5 / n
    by_a = of_n + 0.5 / a - slope_a - ratio_a
    by_b = of_n + 0.5 / b - slope_b - ratio_b
    # The other arguments determine the distance.
    zero = ops.zeros_like(distance)
    return value, by_a, by_b, -distance / x, distance / rest, zero


@compiled
def gamma_tails(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logs of `P(X <= x)` and `P(X > x)`, X gamma of shape `a` and rate 1."""
    a, x = clip(a, 1e-30, 1e30), clip(x, smallest(x), 1e37)
    zeros = ops.zeros_like(a * x)
    a, x = a + zeros, x + zeros
    log_density = log_gamma_density(a, x)
    # Below the mode in log(x), where the tail is exponential ...
    at, upper = ops.where(x < a, x, a), ops.where(x < a, a, x)
    # The curvature `at exp(-s)` vanishes beyond s of about 1.
    step = 1 / (a - at + at / ops.sqrt(1 + at))

    def falls(t: Tensor) -> Tensor:
        s = step * t
        return a * s + at * ops.expm1(-s)

    below = log_density + ops.log(step) + log_survival(falls, zeros)
    # ... and above it in x itself.
    width = (1 + upper) / (upper - a + 1 + ops.sqrt(upper))

    def rises(t: Tensor) -> Tensor:
        s = width * t
        return s - (a - 1) * ops.log1p(s / upper)

    above = log_density + ops.log(width / upper)
    above = above + log_survival(rises, zeros)
    return both_tails(x < a, ops.where(x < a, below, above))


@compiled
def beta_tails(a: Tensor, b: Tensor, x: Tensor, rest: Tensor) -> Any:
    """Logs of `P(X <= x)` and `P(X > x)`, X beta, from x and 1 - x."""
    a, b = clip(a, 1e-30, 1e30), clip(b, 1e-30, 1e30)
    x, rest = (clip(share, smallest(x), 1.0) for share in (x, rest))
    zeros = ops.zeros_like(a * b * x * rest)
    a, b, x, rest = a + zeros, b + zeros, x + zeros, rest + zeros
    n, distance = a + b, b * x - a * rest
    log_density = log_beta_density(a, b, x, rest, distance)
    # The sign of `distance` depends on compiler fusion.
    left = b * x < a * rest
    # By symmetry only the tail to the left is needed.
    a, b = ops.where(left, a, b), ops.where(left, b, a)
    x, rest = ops.where(left, x, rest), ops.where(left, rest, x)
    # At least the s at which the density has fallen to 1/e, approximately. If
    # `n x rest` is small, tails are exponential in s, or flat at first.
    distance, curvature = ops.abs(distance), n * x * rest
    step = ops.where(
        curvature > 6,
        1 / (distance + ops.sqrt(curvature)),
        1 / (distance + a / (1 - n * ops.log(rest))),
    )

    def falls(t: Tensor) -> Tensor:
        s = step * t
        down = a * s + n * ops.log1p(x * ops.expm1(-s))
        # The same, for x near 1.
        near = clip(s, 0.0, 80.0)
        up = n * ops.log1p(rest * ops.expm1(near)) - b * near
        up = up + a * (s - near)
        return ops.where(x < 0.5, down, up)

    tail = log_density + ops.log(step) + log_survival(falls, zeros)
    # If `a` is tiny, this tail is nearly 1, and its logarithm is about
    # `a (log x + h)` with the harmonic number `h` of `b`.
    h = ops.log(b + 2.5) + 1 / (24 * ops.square(b + 2.5)) + 0.577216
    h = h - 1 / (b + 1) - 1 / (b + 2)
    missing = a / (b + 0.5 * a) - a * (ops.log(x) + h)
    limit = 1e-8 if ops.dtype(a) == "float64" else 0.03
    tail = ops.where((a < 1e-3) & (missing < limit), -missing, tail)
    return both_tails(left, tail)
