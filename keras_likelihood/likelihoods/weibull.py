"""The Weibull likelihood: lifetimes whose hazard rises or falls."""

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.positive_likelihood import PositiveLikelihood
from keras_likelihood.likelihoods.special import bounded_exp, log_gamma
from keras_likelihood.likelihoods.tails import log_hazard, log_one_minus_exp


class Weibull(PositiveLikelihood):
    """Weibull distribution of positive numbers, by its mean and its shape.

        nll(y) = z^shape - shape log(z) + log(y) - log(shape)

    with `z = y G(1 + 1 / shape) / prediction` and G the gamma function. The
    hazard falls with time if the shape is below 1, and rises if it is above 1.
    At 1 it is the exponential distribution. Beyond `z^shape = e^40` the NLL
    grows with `log(y)` only, to avoid an overflow.

    Args:
        prediction: mean, `>= 0`, `(batch, ..., units)`.
        shape: `> 0`. Defaults to 1.
    """

    parameters = (Parameter("shape", ShiftedSoftplus(0.01), initial=1.0),)

    @property
    def _log_scale(self):
        """Logarithm of the scale in units of the mean."""
        return -log_gamma(1 + 1 / self.shape)

    def _log_hazard(self, log_ratio):
        return self.shape * (log_ratio - self._log_scale)

    def ratio_nll(self, log_ratio):
        log_hazard = self._log_hazard(log_ratio)
        return (
            bounded_exp(log_hazard)
            - log_hazard
            + log_ratio
            - ops.log(self.shape)
        )

    def ratio_log_tail(self, log_ratio, upper):
        hazard = bounded_exp(self._log_hazard(log_ratio))
        return ops.where(upper, -hazard, log_one_minus_exp(hazard))

    def log_ratio_tail_quantile(self, log_p, upper):
        return self._log_scale + log_hazard(log_p, upper) / self.shape

    def variance(self):
        return ops.square(self._mean) * ops.expm1(_log_gap(1 / self.shape))

    def information(self):
        return ops.square(self.shape / self._mean)

    def _as_tfp(self, tfp):
        return tfp.Weibull(
            self.shape, self.prediction * ops.exp(self._log_scale)
        )


def _log_gap(x):
    """`log G(1 + 2 x) - 2 log G(1 + x)`, exact for small x too.

    There it is a series whose coefficients are `(-1)^k zeta(k) (2^k - 2) / k`.
    """
    near = clip(x, 0.0, 0.2)
    series = 0.0
    for k in range(len(_ZETA) + 1, 1, -1):
        term = (-1) ** k * _ZETA[k - 2] * (2**k - 2) / k
        series = (series + term) * near
    far = log_gamma(1 + 2 * x) - 2 * log_gamma(1 + x)
    return ops.where(x < 0.15, series * near, far)


_ZETA = [
    sum(n**-k for n in range(1, 100)) + 99.5 ** (1 - k) / (k - 1)
    for k in range(2, 20)
]
"""Riemann's zeta function at 2, 3, ..."""
