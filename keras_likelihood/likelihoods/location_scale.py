"""Likelihoods with a location and a scale."""

import keras
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.likelihoods import quadrature
from keras_likelihood.likelihoods.checks import check_coverage
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.moments import variance_by_quantiles
from keras_likelihood.likelihoods.tails import safe_log


class LocationScale(Likelihood):
    """A symmetric density around the prediction, stretched by `scale`.

    With `z = (y - prediction) / scale`:

        nll(y)      = standard_nll(z) + log(scale)
        cdf(y)      = standard_cdf(z)
        quantile(p) = prediction + scale * standard_quantile(p)

    A subclass only needs `standard_nll`. The rest is then computed from it by
    numerical quadrature. A subclass may override it by closed forms.
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
        return self._integrate(quadrature.cdf, z)

    def standard_log_cdf(self, z):
        cdf = self.standard_cdf(z)
        # If the tail is too small for the cdf, its density is used instead.
        return ops.where(cdf > 1e-30, safe_log(cdf), -self.standard_nll(z))

    def standard_quantile(self, p):
        return self._integrate(quadrature.quantile, p)

    def standard_information(self):
        """`E[psi^2]` with `psi = d standard_nll / dz`, for scale 1."""
        return self._integrate(quadrature.score_moments, self.prediction)[0]

    def scale_exponent(self):
        """The power of the scale that cancels it in the gradients.

        The gradient of a residual r by the prediction is
        `psi(r / scale) / scale` with `psi = d standard_nll / dz`. For
        residuals that follow this distribution, the expected square of
        `scale^k * gradient` does not change with the scale, to first order, at

            k = 1 + E[z psi psi'] / E[psi^2] = (1 + E[z psi^3] / E[psi^2]) / 2

        It is 2 for the normal and 1 for the Laplace distribution. For these
        two the scale cancels for every residual.
        """
        second, third = self._integrate(
            quadrature.score_moments, self.prediction
        )
        return 0.5 + 0.5 * third / second

    def _integrate(self, function, x):
        names = ["prediction", *(p.name for p in self.parameters)]
        tensors = {name: getattr(self, name) for name in names}
        return _integrate(type(self), function, tensors, x)

    def standard_sample(self, shape, seed):
        # The interval is open, because 0 and 1 have infinite quantiles.
        uniform = keras.random.uniform(
            shape, dtype=self.prediction.dtype, seed=seed
        )
        tiny = 2.0**-24
        return self.standard_quantile(ops.clip(uniform, tiny, 1 - tiny))

    def standardize(self, y):
        """`(y - prediction) / scale`."""
        return (self._check_target(y) - self.prediction) / self.scale

    def nll(self, y):
        return self.standard_nll(self.standardize(y)) + ops.log(self.scale)

    def cdf(self, y):
        return self.standard_cdf(self.standardize(y))

    def log_tail(self, y, upper):
        z = self.standardize(y)
        return self.standard_log_cdf(ops.where(upper, -z, z))

    def quantile(self, p):
        """The value below which a fraction `p` of outcomes falls.

        Args:
            p: in (0, 1): a number, or a tensor that broadcasts against the
                prediction.
        """
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        return self.prediction + self.scale * self.standard_quantile(p)

    def interval(self, coverage=0.9):
        check_coverage(coverage)
        # The lower tail is used, because 1 - tail is less exact.
        half = self.scale * self.standard_quantile(
            ops.convert_to_tensor(
                (1 - coverage) / 2, dtype=self.prediction.dtype
            )
        )
        return self.prediction + half, self.prediction - half

    def sample(self, count=None, seed=None):
        draw = self.standard_sample(self._sample_shape(count), seed)
        return self.prediction + self.scale * draw

    def mean(self):
        return self.prediction

    def standard_variance(self):
        """Variance for scale 1."""
        return variance_by_quantiles(self) / ops.square(self.scale)

    def variance(self):
        """Variance of the outcome, of the prediction's shape.

        It is `standard_variance() * scale^2`.
        """
        each = self.standard_variance() * ops.square(self.scale)
        return ops.broadcast_to(each, ops.shape(self.prediction))

    def information(self):
        """Fisher information of the prediction, of the prediction's shape.

        It is `standard_information() / scale^2`.
        """
        each = self.standard_information() / ops.square(self.scale)
        return ops.broadcast_to(each, ops.shape(self.prediction))


def _of_parameters(likelihood, function, tensors, x):
    """`function` of the density with the given parameters, at `x`."""
    density = object.__new__(likelihood)
    vars(density).update(tensors)
    return function(density.prepared_nll(), x)


_integrate = compiled(_of_parameters, static=2)
