"""The Poisson likelihood: counts whose variance is their mean."""

from keras import ops

from keras_likelihood.backend.operations import draw_poisson
from keras_likelihood.likelihoods.count_likelihood import CountLikelihood
from keras_likelihood.likelihoods.incomplete import gamma_tails
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    relative_entropy,
    stirling_remainder,
)


class Poisson(CountLikelihood):
    """Poisson distribution of counts.

        nll(y) = prediction - y log(prediction) + log(y!)

    Without the last term, which does not depend on the prediction, it is
    Keras' `"poisson"` loss.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
    """

    parameters = ()

    def count_nll(self, y):
        return relative_entropy(y, self._mean) + log_factorial_excess(y)

    def count_log_tails(self, y):
        """`P(Y <= y) = P(G > prediction)` with G gamma of shape y + 1."""
        below, above = gamma_tails(y + 1, self._mean)
        return above, below

    def variance(self):
        return self._mean

    def information(self):
        return 1 / self._mean

    def sample(self, count=None, seed=None):
        mean = ops.broadcast_to(self._mean, self._sample_shape(count))
        return draw_poisson(mean, seed)

    def _as_tfp(self, tfp):
        return tfp.Poisson(self.prediction)


def log_factorial_excess(y):
    """`log(y!) - y log(y) + y` for whole numbers `y >= 0`."""
    positive = ops.where(y > 0, y, ops.ones_like(y))
    excess = 0.5 * ops.log(positive) + HALF_LOG_2_PI
    excess = excess + stirling_remainder(positive)
    return ops.where(y > 0, excess, ops.zeros_like(y))
