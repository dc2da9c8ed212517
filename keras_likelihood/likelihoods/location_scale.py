"""Likelihoods with a location and a scale."""

import math

from keras import ops

from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods import quadrature
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import open_uniform
from keras_likelihood.likelihoods.tails import smaller_tail

SCALE = Parameter("scale", ShiftedSoftplus(0.01))


class LocationScale(Likelihood):
    """A symmetric density around the prediction, stretched by `scale`.

    With `z = (y - prediction) / scale`:

        nll(y)      = standard_nll(z) + log(scale)
        cdf(y)      = standard_cdf(z)
        quantile(p) = prediction + scale * standard_quantile(p)

    A subclass only needs `standard_nll`. The rest is then computed from it by
    numerical quadrature. A subclass may have closed forms instead, such as
    `standard_log_cdf` and `standard_log_quantile`.
    """

    def standard_nll(self, z):
        """NLL of the density with location 0 and scale 1."""
        raise NotImplementedError

    def prepared_nll(self):
        """`standard_nll` as a function for many z.

        Override it if a large part of the work does not depend on z.
        """
        return self.standard_nll

    def standard_cdf(self, z):
        return ops.exp(self.standard_log_cdf(z))

    def standard_log_cdf(self, z):
        """Logarithm of the lower tail, exact at any distance."""
        return self._compiled("_log_cdf", z)

    def standard_quantile(self, p):
        tail = ops.where(p < 0.5, p, 1 - p)
        # The logarithm of 0 has no gradient.
        log_p = ops.log(ops.where(tail == 0, 0.25, tail))
        z = ops.where(tail == 0, -math.inf, self.standard_log_quantile(log_p))
        return ops.where(p == 0.5, 0.0, ops.sign(0.5 - p) * z)

    def standard_log_quantile(self, log_p):
        """The `z <= 0` with `standard_log_cdf(z) = log_p <= log(1/2)`."""
        return self._compiled("_log_quantile", log_p)

    def _log_cdf(self, z):
        return quadrature.log_cdf(self.prepared_nll(), z)

    def _log_quantile(self, log_p):
        return quadrature.log_quantile(self.prepared_nll(), log_p)

    def _score_moments(self):
        return quadrature.score_moments(self.prepared_nll(), self.prediction)

    def standard_information(self):
        """`E[psi^2]` with `psi = d standard_nll / dz`, for scale 1."""
        return self._compiled("_score_moments")[0]

    def standard_variance(self):
        """Variance for scale 1, infinite if the integral does not converge."""
        return self._compiled("_score_moments")[2]

    def standard_log_mgf(self, t):
        """`log E[exp(t z)]`, or infinity; `None` without a closed form."""
        return None

    def scale_exponent(self):
        """The power of the scale that cancels it in the gradients.

        The gradient of a residual r with respect to the prediction is
        `psi(r / scale) / scale` with `psi = d standard_nll / dz`. For
        residuals that follow this distribution, the expected square of
        `scale^k * gradient` does not change with the scale, to first order, at

            k = 1 + E[z psi psi'] / E[psi^2] = (1 + E[z psi^3] / E[psi^2]) / 2

        It is 2 for the normal and 1 for the Laplace distribution. For these
        two the scale cancels for every residual.
        """
        second, third, _ = self._compiled("_score_moments")
        return 0.5 + 0.5 * third / second

    def standard_sample(self, shape, seed):
        uniform = open_uniform(shape, self.prediction.dtype, seed)
        return self.standard_quantile(uniform)

    def standardize(self, y):
        """`(y - prediction) / scale`."""
        # One scale may serve many outcomes, and gradients of a product are
        # cheaper than those of a quotient.
        return (self._check_target(y) - self.prediction) * (1 / self.scale)

    def nll(self, y):
        return self.standard_nll(self.standardize(y)) + ops.log(self.scale)

    def log_tail(self, y, upper):
        z = self.standardize(y)
        return self.standard_log_cdf(ops.where(upper, -z, z))

    def quantile(self, p):
        return self.prediction + self.scale * self.standard_quantile(p)

    def tail_quantile(self, log_p, upper):
        log_p, upper = smaller_tail(log_p, upper)
        z = self.standard_log_quantile(log_p)
        return self.prediction + self.scale * ops.where(upper, -z, z)

    def sample(self, count=None, seed=None):
        draw = self.standard_sample(self._sample_shape(count), seed)
        return self.prediction + self.scale * draw

    def mean(self):
        return self.prediction

    def variance(self):
        """`standard_variance() * scale^2`, of the prediction's shape."""
        each = self.standard_variance() * ops.square(self.scale)
        return ops.broadcast_to(each, ops.shape(self.prediction))

    def information(self):
        """`standard_information() / scale^2`, of the prediction's shape."""
        each = self.standard_information() / ops.square(self.scale)
        return ops.broadcast_to(each, ops.shape(self.prediction))
