"""The general robust loss as a likelihood with a learned shape.

With `s = (x / scale)^2`, `b = |shape - 2|`, `L = log(1 + s / b)` and `E` as
given, rho has two equal forms:

    (b / shape) E                 E = expm1(shape / 2 * L)
    (s + (s + b) E) / shape       E = expm1((shape / 2 - 1) L)

The first form is inaccurate near shape 2, the second near shape 0. Both are
`(k s + (k s + b) E) / shape` with k = 0 or 1, which depends only on the shape.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_likelihood.backend.operations import clip, computes_apart
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import AffineSigmoid, Softplus
from keras_likelihood.likelihoods import log_partition
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import with_slopes

_FORM_CHANGE = 1.7
"""Shape above which the second form is more accurate."""


class RobustRho(LocationScale):
    """The density whose negative logarithm is the general robust loss.

        nll(y) = rho(y - prediction, shape, scale) + log(scale) + log Z(shape)

    Shape 2 is the normal distribution with standard deviation `scale`, shape 1
    has Laplace tails, and shape 0 is a Cauchy of scale `sqrt(2) * scale`.
    Learned shapes stay between 0 and 3.

    Args:
        prediction: median, `(batch, ..., units)`.
        shape: `>= 0`. Defaults to 1.
        scale: `> 0`. Defaults to 1.

    >>> y = np.array([[0.0, 1.0]])
    >>> found = kl.likelihoods.RobustRho(0 * y, shape=2.0).as_numpy()
    >>> print(found.nll(y).round(4))
    [[0.9189 1.4189]]
    """

    parameters = (
        Parameter(
            "shape", AffineSigmoid(0.0, 3.0), initial=1.0, includes_zero=True
        ),
        Parameter("scale", Softplus(floor=1e-8), initial=1.0),
    )

    def standard_nll(self, z: Tensor) -> Tensor:
        return _nll(z, self.shape, ops.ones((), dtype=self.scale.dtype))

    def nll(self, y: Tensor) -> Tensor:
        return _nll(y - self.prediction, self.shape, self.scale)

    def mean(self) -> Tensor:
        """The prediction, or NaN at shape 0, where the integral diverges."""
        return ops.where(self.shape > 0, self.prediction, float("nan"))

    def standard_variance(self) -> Tensor:
        """Variance for scale 1, with a relative error below 1e-4."""
        share = 1 + 1 / clip(self.shape, 1e-9, 1e9)
        variance = ops.exp(log_partition.log_variance(self.shape) * share)
        return ops.where(self.shape > 0, variance, math.inf)

    def scale_exponent(self) -> Tensor:
        """It is 1 at shape 0, 2 at shape 2 and 3.92 at infinity."""
        return log_partition.scale_exponent(self.shape)

    def prepared_nll(self) -> Callable[[Tensor], Tensor]:
        constant = log_partition.log_partition(self.shape)
        unit = ops.ones((), dtype=self.scale.dtype)
        # Beyond this limit rho is constant, which would look like a heavy tail.
        end = limits(self.scale).ratio

        def nll(z: Tensor) -> Tensor:
            value = rho_and_slopes(z, self.shape, unit)[0] + constant
            return ops.where(ops.abs(z) < end, value, math.inf)

        return nll


def rho_and_slopes(x: Tensor, shape: Tensor, scale: Tensor) -> Any:
    """Rho, and the slopes of `rho + log(scale)` along x, shape and scale.

        rho = (b / shape) ((s / b + 1)^(shape / 2) - 1)

    With `h = shape / 2 * L` and `v = exp((shape / 2 - 1) L)` the slope with
    respect to the shape is

        (sign(shape - 2) E + (rho + b / shape) h - rho + r s v / 2) / shape

    where r is -1 for k = 1 and `shape / b` for k = 0. Beyond the range of the
    dtype rho and its slopes stay at their largest values.
    """
    tiny, gap, huge, ratio, largest, bound = limits(shape)
    a = clip(shape, -huge, huge) + tiny
    b = clip(ops.abs(shape - 2), gap, huge)
    k = ops.cast(a >= _FORM_CHANGE, ops.dtype(shape))
    inverse_a, inverse_b, inverse_scale = 1 / a, 1 / b, 1 / scale
    b_over_a = b * inverse_a
    z = clip(x * inverse_scale, -ratio, ratio)
    s = z * z
    log_u = ops.log1p(s * inverse_b)

    def forms(log_u: Tensor, exponent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        exponent = clip(exponent, -largest, largest)
        e = ops.expm1(exponent)
        ks = (k * inverse_a) * s
        value = clip(ks + (ks + b_over_a) * e, -bound, bound)
        return value, e, exponent + k * log_u

    value, e, h = forms(log_u, (0.5 * a - k) * log_u)
    rho = value
    if computes_apart():
        # With a single shape it is quicker to share the logarithm.
        if len(shape.shape) > 0:
            log_u = ops.log1p(s / b)
        rho, e, h = forms(log_u, (a - 2 * k) * (0.5 * log_u))
    v = ops.exp(clip((0.5 * a - 1) * log_u, -largest, largest))
    by_x = clip(v * z * inverse_scale, -bound, bound)
    pull = clip(s * v, -bound, bound)
    by_shape = ops.sign(shape - 2) * e + _second_order(rho, h, b_over_a)
    # `shape / b` for the first form, and 0 for the second.
    by_shape = by_shape + 0.5 * ((1 - k) * (a * inverse_b) - k) * pull
    by_shape = clip(by_shape * inverse_a, -bound, bound)
    return value, by_x, by_shape, (1 - pull) / scale


@with_slopes
def _nll(x: Tensor, shape: Tensor, scale: Tensor) -> Any:
    value, by_x, by_shape, by_scale = rho_and_slopes(x, shape, scale)
    constant, slope = log_partition.value_and_slope(shape)
    nll = value + (constant + ops.log(scale))
    # Rho stops growing at the end of the range of the dtype.
    nll = ops.where(ops.abs(x) == math.inf, math.inf, nll)
    return nll, by_x, by_shape + slope, by_scale


def _second_order(value: Any, h: Tensor, b_over_a: Tensor) -> Tensor:
    """`(rho + b / a) h - rho`, by a series where the difference loses digits.

    It equals `(b / a) (h e^h - expm1(h))`, which is of second order in h.
    """
    direct = (value + b_over_a) * h - value
    h2 = h * h
    series = h2 * (0.5 + h * (1 / 3 + h * 0.125)) * b_over_a
    threshold = 1e-4 if ops.dtype(h) == "float64" else 0.03
    # Fused multiply-adds round `direct` differently on different machines, so
    # its weight must be exactly zero.
    return ops.where(h2 < threshold**2, series, direct)


class _Limits(NamedTuple):
    """Limits that keep every intermediate result finite."""

    tiny: float
    """Replaces the shape 0."""
    gap: float
    """Replaces the distance 0 from shape 2."""
    huge: float
    """Replaces an infinite shape."""
    ratio: float
    """Largest ratio of residual to scale."""
    exponent: float
    """Largest logarithm of `E + 1`."""
    bound: float
    """Largest rho and slope."""


def limits(x: Tensor) -> _Limits:
    """The limits for the dtype of a tensor."""
    if ops.dtype(x) == "float64":
        return _Limits(3e-32, 1e-18, 1e20, 3e18, 690.0, 1e300)
    return _Limits(1.3e-13, 1e-9, 1e12, 3e12, 80.0, 1e37)
