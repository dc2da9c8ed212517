"""The negative binomial likelihood: counts that vary more than Poisson."""

import keras
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.operations import draw_poisson, seed_generator
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.count_likelihood import CountLikelihood
from keras_likelihood.likelihoods.incomplete import beta_tails
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    relative_entropy,
    stirling_remainder,
)


class NegativeBinomial(CountLikelihood):
    """Negative binomial distribution of counts.

        variance = prediction + dispersion * prediction^2
        nll(y)   = (y + r) log(1 + dispersion * prediction)
                   - y log(dispersion * prediction)
                   + log G(r) + log(y!) - log G(y + r)

    Here `r = 1 / dispersion` and G is the gamma function. It is a Poisson
    distribution whose mean follows a gamma distribution. As the dispersion
    goes to 0, it becomes the Poisson distribution. Statistics packages call
    this form NB2 and the dispersion alpha.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        dispersion: `> 0`. Values below 1e-12 count as 1e-12. Defaults to 1.
    """

    parameters = (Parameter("dispersion", Softplus(floor=1e-6), initial=1.0),)

    @property
    def _dispersion(self):
        return clip(self.dispersion, 1e-12, 1e12)

    def count_nll(self, y):
        dispersion, mean = self._dispersion, self._mean
        r = 1 / dispersion
        at_zero = r * ops.log1p(dispersion * mean)
        # A binomial probability of r among r + y; see Loader (2000).
        positive = ops.where(y > 0, y, ops.ones_like(y))
        stretch = 1 + dispersion * mean
        grown = (1 + dispersion * positive) / stretch
        shift = (mean - positive) / stretch
        above_zero = (
            relative_entropy(r, r * grown, -shift)
            + relative_entropy(positive, mean * grown, shift)
            + stirling_remainder(r)
            + stirling_remainder(positive)
            - stirling_remainder(r + positive)
            + 0.5 * ops.log(positive)
            + 0.5 * ops.log1p(dispersion * positive)
            + HALF_LOG_2_PI
        )
        return ops.where(y > 0, above_zero, at_zero)

    def count_log_tails(self, y):
        """`P(Y <= y) = P(B <= p)` with B beta of shapes r and y + 1."""
        odds = self._dispersion * self._mean
        return beta_tails(
            1 / self._dispersion, y + 1, 1 / (1 + odds), odds / (1 + odds)
        )

    def variance(self):
        return self._mean * (1 + self._dispersion * self._mean)

    def information(self):
        return 1 / self.variance()

    def sample(self, count=None, seed=None):
        seed = seed_generator(seed)
        shape = self._sample_shape(count)
        r = ops.broadcast_to(1 / self._dispersion, shape)
        gamma = self._draw(keras.random.gamma, shape, r, seed=seed)
        return draw_poisson(self._mean * gamma / r, seed)

    def _as_tfp(self, tfp):
        odds = self.dispersion * self.prediction
        return tfp.NegativeBinomial(1 / self.dispersion, logits=ops.log(odds))
