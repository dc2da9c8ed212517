"""Likelihoods that shift and stretch one standard density."""

import keras
from keras import ops

from keras_likelihood.likelihoods import quadrature
from keras_likelihood.likelihoods.likelihood import Likelihood


class LocationScale(Likelihood):
    """A symmetric density around the prediction, stretched by `scale`.

    With `z = (y - prediction) / scale`:

        nll(y)      = standard_nll(z) + log(scale)
        cdf(y)      = standard_cdf(z)
        quantile(p) = prediction + scale * standard_quantile(p)

    A subclass needs `standard_nll` alone: the rest then comes from numerical
    quadrature of it. Closed forms override.
    """

    def standard_nll(self, z):
        """NLL of the density with location 0 and scale 1."""
        raise NotImplementedError

    def prepared_nll(self):
        """`standard_nll` as a function for many z.

        Override it where much of the work does not depend on z.
        """
        return self.standard_nll

    def standard_cdf(self, z):
        return quadrature.cdf(self.prepared_nll(), z)

    def standard_quantile(self, p):
        return quadrature.quantile(self.prepared_nll(), p)

    def standard_sample(self, shape, seed):
        # The open interval: an exact 0 or 1 has an infinite quantile.
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

    def quantile(self, p):
        """The value below which a fraction `p` of outcomes falls.

        Args:
            p: in (0, 1): a number, or a tensor that broadcasts against the
                prediction.
        """
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        return self.prediction + self.scale * self.standard_quantile(p)

    def sample(self, count=None, seed=None):
        draw = self.standard_sample(self._sample_shape(count), seed)
        return self.prediction + self.scale * draw

    def mean(self):
        return self.prediction
