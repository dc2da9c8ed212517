"""The robust rho likelihood: the shape of the loss is learned too."""

import functools
import math

import numpy as np
from keras import ops

from keras_likelihood.backend.custom_gradient import with_gradient
from keras_likelihood.backend.lookup import lookup
from keras_likelihood.constraints import AffineSigmoid, Softplus
from keras_likelihood.likelihoods import log_partition
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.rho import (
    differentiate,
    evaluate,
    longest_ratio,
)


class RobustRho(LocationScale):
    """The density whose negative logarithm is the general robust loss.

        nll(y) = rho(y - prediction, shape, scale) + log(scale) + log Z(shape)

    Shape 2 is the normal distribution with standard deviation `scale`, shape 1
    has the tails of a Laplace, shape 0 is a Cauchy of scale `sqrt(2) * scale`.
    Learned shapes stay between 0 and 3. Fixed shapes may be any number from 0
    to infinity.

    Args:
        prediction: median, `(batch, ..., units)`.
        shape: `>= 0`. Defaults to 1.
        scale: `> 0`. Defaults to 1.

    >>> y = np.array([[0.0], [1.0]])
    >>> RobustRho(y, shape=2.0).nll(0 * y)
    [[0.9189385], [1.4189385]]
    """

    parameters = (
        Parameter(
            "shape", AffineSigmoid(0.0, 3.0), initial=1.0, includes_zero=True
        ),
        Parameter("scale", Softplus(floor=1e-8), initial=1.0),
    )

    def standard_nll(self, z):
        return _nll(z, self.shape, ops.ones((), dtype=self.scale.dtype))

    def nll(self, y):
        x = self._check_target(y) - self.prediction
        return _nll(x, self.shape, self.scale)

    def mean(self):
        """The prediction, or NaN at shape 0, where the integral diverges."""
        return ops.where(self.shape > 0, self.prediction, float("nan"))

    def scale_exponent(self):
        """From 1 at shape 0 over 2 at shape 2 to 3.92 at infinity.

        It is read from a table, with an error below 1e-4. If every pixel has
        its own shape, the integrals would take longer than the loss.
        """
        table = _exponents().astype(ops.dtype(self.shape))
        position = (len(table) - 1) * (1 - 2 / (self.shape + 2))
        piece = ops.floor(position)
        start, rise = lookup(table, ops.cast(piece, "int32"))
        return start + rise * (position - piece)

    def prepared_nll(self):
        constant = log_partition.log_partition(self.shape)
        unit = ops.ones((), dtype=self.scale.dtype)
        # Beyond it rho is constant, which would look like a heavy tail.
        end = longest_ratio(self.scale)

        def nll(z):
            value = evaluate(z, self.shape, unit)[0] + constant
            return ops.where(ops.abs(z) < end, value, math.inf)

        return nll


@functools.cache
def _exponents():
    """Exponents and their rises at equally spaced `shape / (shape + 2)`."""
    share = np.arange(513) / 512
    shape = np.clip(2 * share / np.maximum(1 - share, 1e-9), 1e-9, None)
    a = shape[:, None]
    b = np.maximum(np.abs(a - 2), 1e-9)
    log_z = np.linspace(-12, 24, 1441)
    z = np.exp(log_z)
    log_u = np.log1p(z * z / b)
    # The density is 0 where the exponent is above 50.
    power = np.exp(np.minimum(0.5 * a * log_u, 50))
    weight = z * np.exp(-b / a * (power - 1))
    score = z * power * np.exp(-log_u)
    second = np.sum(score**2 * weight, axis=1)
    third = np.sum(z * score**3 * weight, axis=1)
    exponent = 0.5 + 0.5 * third / second
    rise = np.append(np.diff(exponent), 0.0)
    return np.stack([exponent, rise], axis=1)


def _forward(x, shape, scale):
    value, residuals = evaluate(x, shape, scale)
    constant, slope = log_partition.value_and_slope(shape)
    return value + (constant + ops.log(scale)), (*residuals, slope)


def _backward(residuals, upstream):
    *residuals, slope = residuals
    return differentiate(residuals, upstream, normalizer_slope=slope)


_nll = with_gradient(_forward, _backward)
