"""The robust rho likelihood: the shape of the loss is learned too."""

import functools
import math

import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.custom_gradient import with_gradient
from keras_likelihood.backend.operations import lookup
from keras_likelihood.constraints import AffineSigmoid, Softplus
from keras_likelihood.likelihoods import log_partition
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.rho import differentiate, evaluate, limits


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
        nll = _nll(x, self.shape, self.scale)
        # Rho stops growing at the end of the range of the dtype.
        return ops.where(ops.abs(x) == math.inf, math.inf, nll)

    def mean(self):
        """The prediction, or NaN at shape 0, where the integral diverges."""
        return ops.where(self.shape > 0, self.prediction, float("nan"))

    def standard_variance(self):
        """It is read from a table, with a relative error below 1e-4."""
        share = self._tabulated(2, 3) * (1 + 1 / clip(self.shape, 1e-9, 1e9))
        return ops.where(self.shape > 0, ops.exp(share), math.inf)

    def standard_log_mgf(self, t):
        """Infinite if it does not exist, and NaN (unknown) otherwise."""
        exists = (self.shape > 1) | ((self.shape == 1) & (ops.abs(t) < 1))
        return ops.where(exists, float("nan"), math.inf)

    def scale_exponent(self):
        """From 1 at shape 0 over 2 at shape 2 to 3.92 at infinity.

        It is read from a table, with an error below 1e-4. If every pixel has
        its own shape, the integrals would take longer than the loss.
        """
        return self._tabulated(0, 1)

    def _tabulated(self, value, rise):
        """Columns of the table, interpolated at the shape."""
        table = _table().astype(ops.dtype(self.shape))
        position = (len(table) - 1) * (1 - 2 / (self.shape + 2))
        piece = ops.floor(position)
        columns = lookup(table, ops.cast(piece, "int32"))
        return columns[value] + columns[rise] * (position - piece)

    def prepared_nll(self):
        constant = log_partition.log_partition(self.shape)
        unit = ops.ones((), dtype=self.scale.dtype)
        # Beyond it rho is constant, which would look like a heavy tail.
        end = limits(self.scale).ratio

        def nll(z):
            value = evaluate(z, self.shape, unit)[0] + constant
            return ops.where(ops.abs(z) < end, value, math.inf)

        return nll


@functools.cache
def _table():
    """Values and their rises at equally spaced `shape / (shape + 2)`.

    The first is the exponent of the scale, the second the logarithm of the
    variance times `shape / (1 + shape)`.
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
    columns = []
    for column in (0.5 + 0.5 * third / second, spread):
        columns += [column, np.append(np.diff(column), 0.0)]
    return np.stack(columns, axis=1)


def _forward(x, shape, scale):
    value, residuals = evaluate(x, shape, scale)
    constant, slope = log_partition.value_and_slope(shape)
    return value + (constant + ops.log(scale)), (*residuals, slope)


def _backward(residuals, upstream):
    *residuals, slope = residuals
    return differentiate(residuals, upstream, normalizer_slope=slope)


_nll = with_gradient(_forward, _backward)
