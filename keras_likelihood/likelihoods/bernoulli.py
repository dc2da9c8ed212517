"""The Bernoulli likelihood: binary cross-entropy with a temperature."""

from keras import ops

from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parameter import Parameter


class Bernoulli(Likelihood):
    """Independent yes/no outcomes from logits.

        nll(y) = log(1 + exp(l)) - y l,    l = prediction / temperature

    At `temperature = 1` it is the binary cross-entropy.

    Args:
        prediction: logits, `(batch, ..., units)`.
        temperature: `> 0`. Defaults to 1.
    """

    parameters = (Parameter("temperature", ShiftedSoftplus(0.2), neutral=True),)
    is_discrete = True
    allowed = "in [0, 1]"

    @property
    def logits(self):
        """Logits after division by the temperature."""
        return self.prediction / self.temperature

    def nll(self, y):
        """Negative log-likelihood of `y` in [0, 1], and NaN for others."""
        y = self._check_target(y)
        nll = ops.softplus(self.logits) - y * self.logits
        return self._or_nan(nll, self.is_possible(y))

    @classmethod
    def is_possible(cls, y):
        return (y >= 0) & (y <= 1)

    def cdf(self, y):
        y = self._check_target(y)
        at_zero = ops.sigmoid(-self.logits)
        return ops.where(y < 0, 0.0, ops.where(y < 1, at_zero, 1.0))

    def quantile(self, p):
        return ops.cast(p > ops.sigmoid(-self.logits), self.prediction.dtype)

    def mean(self):
        """Probability of a yes, of the logits' shape."""
        return ops.sigmoid(self.logits)

    def variance(self):
        return self.mean() * ops.sigmoid(-self.logits)

    def pooled_prediction(self, axis):
        """Log-odds of the mean probability over an axis of the logits."""
        yes = ops.logsumexp(-ops.softplus(-self.logits), axis=axis)
        return yes - ops.logsumexp(-ops.softplus(self.logits), axis=axis)

    def class_probabilities(self):
        """Probabilities of no and yes, `(batch, ..., units, 2)`."""
        yes = self.mean()
        return ops.stack([1 - yes, yes], axis=-1)

    def information(self):
        return self.variance() / ops.square(self.temperature)

    def sample(self, count=None, seed=None):
        is_yes = self._uniform(count, seed) < self.mean()
        return ops.cast(is_yes, self.prediction.dtype)

    def _as_tfp(self, tfp):
        return tfp.Bernoulli(logits=self.logits)
