"""The exponential likelihood: waiting times without memory."""

from keras import ops

from keras_likelihood.likelihoods.positive_likelihood import PositiveLikelihood
from keras_likelihood.likelihoods.special import bounded_exp
from keras_likelihood.likelihoods.tails import log_hazard, log_one_minus_exp


class Exponential(PositiveLikelihood):
    """Exponential distribution of numbers `>= 0`.

        nll(y) = y / prediction + log(prediction)

    Beyond `y = e^40 prediction` the NLL grows with `log(y)` only, to avoid an
    overflow.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
    """

    parameters = ()
    includes_zero = True

    def ratio_nll(self, log_ratio):
        return bounded_exp(log_ratio)

    def ratio_log_tail(self, log_ratio, upper):
        hazard = bounded_exp(log_ratio)
        return ops.where(upper, -hazard, log_one_minus_exp(hazard))

    def log_ratio_tail_quantile(self, log_p, upper):
        return log_hazard(log_p, upper)

    def variance(self):
        return ops.square(self._mean)

    def information(self):
        return 1 / ops.square(self._mean)

    def _as_tfp(self, tfp):
        return tfp.Exponential(1 / self.prediction)
