"""The robust rho likelihood: the shape of the loss is learned too."""

import math

from keras import ops

from keras_likelihood.backend.custom_gradient import with_gradient
from keras_likelihood.constraints import AffineSigmoid, Softplus
from keras_likelihood.likelihoods import log_partition
from keras_likelihood.likelihoods.likelihood import Parameter
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.rho import (
    differentiate,
    evaluate,
    longest_ratio,
)


class RobustRho(LocationScale):
    """The density whose negative logarithm is the general robust loss.

        nll(y) = rho(y - prediction, shape, scale) + log(scale) + log Z(shape)

    Shape 2 is the normal distribution with standard deviation `scale`, shape
    1 has the tails of a Laplace, shape 0 is a Cauchy of scale
    `sqrt(2) * scale`. Learned shapes stay between 0 and 3; fixed ones may be
    any from 0 to infinity.

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
        """The prediction; NaN at shape 0, where the integral diverges."""
        return ops.where(self.shape > 0, self.prediction, float("nan"))

    def prepared_nll(self):
        constant = log_partition.log_partition(self.shape)
        unit = ops.ones((), dtype=self.scale.dtype)
        # From there on rho is level, which would look like a heavy tail.
        end = longest_ratio(self.scale)

        def nll(z):
            value = evaluate(z, self.shape, unit)[0] + constant
            return ops.where(ops.abs(z) < end, value, math.inf)

        return nll


def _forward(x, shape, scale):
    value, residuals = evaluate(x, shape, scale)
    constant, slope = log_partition.value_and_slope(shape)
    return value + (constant + ops.log(scale)), (*residuals, slope)


def _backward(residuals, upstream):
    *residuals, slope = residuals
    return differentiate(residuals, upstream, normalizer_slope=slope)


_nll = with_gradient(_forward, _backward)
