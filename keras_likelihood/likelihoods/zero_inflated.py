"""Counts with more zeros than their distribution has."""

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.backend.operations import seed_generator
from keras_likelihood.constraints import AffineSigmoid
from keras_likelihood.likelihoods.count_likelihood import CountLikelihood
from keras_likelihood.likelihoods.likelihood import get
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.tails import log_add
from keras_likelihood.likelihoods.wrapper import Wrapper

_ZERO = Parameter(
    "zero_probability", AffineSigmoid(0.0, 1.0), initial=0.1, below=1.0
)


class ZeroInflated(Wrapper, CountLikelihood):
    """Any likelihood of counts, with additional zeros.

        P(0) = zero_probability + (1 - zero_probability) P_count(0)
        P(y) = (1 - zero_probability) P_count(y)    for y > 0

    The prediction is the mean of all outcomes, so that metrics keep their
    meaning. The mean of the counts alone is
    `prediction / (1 - zero_probability)`.

    ```python
    ZeroInflated(Poisson)
    ZeroInflated("negative_binomial")
    ```

    Args:
        likelihood: a `CountLikelihood` or its name.

    A call on the class that this makes takes

        prediction: mean, `>= 0`, `(batch, ..., units)`.
        **parameters: parameters of the likelihood, and `zero_probability` in
            (0, 1), which defaults to 0.1.
    """

    example = "poisson"

    @classmethod
    def define(cls, likelihood):
        inner = get(likelihood)
        if not issubclass(inner, CountLikelihood) or _ZERO in inner.parameters:
            raise ValueError(
                "ZeroInflated needs a likelihood of counts, such as 'poisson' "
                f"or 'negative_binomial'. Received: {inner.name()!r}"
            )
        parameters = (*inner.parameters, _ZERO)
        return {**cls.attributes_of(inner), "parameters": parameters}

    @property
    def _zero(self):
        return clip(self.zero_probability, 1e-7, 1 - 1e-6)

    @property
    def inner(self):
        """The distribution of the counts, around their own mean."""
        return self._around(self._mean / (1 - self._zero))

    def count_nll(self, y):
        inner, zero = self.inner, self._zero
        p = ops.exp(-inner.count_nll(ops.zeros_like(y)))
        at_zero = -ops.log(zero + (1 - zero) * p)
        positive = ops.where(y > 0, y, ops.ones_like(y))
        above_zero = inner.count_nll(positive) - ops.log1p(-zero)
        return ops.where(y > 0, above_zero, at_zero)

    def count_log_tails(self, y):
        below, above = self.inner.count_log_tails(y)
        rest = ops.log1p(-self._zero)
        return log_add(ops.log(self._zero), rest + below), rest + above

    def variance(self):
        inner = self.inner
        given = inner.variance() + self._zero * ops.square(inner.prediction)
        return (1 - self._zero) * given

    def information(self):
        """That of the counts alone, minus what the additional zeros hide."""
        inner, rest = self.inner, 1 - self._zero
        none = ops.zeros_like(self.prediction)
        nll, (slope,) = value_and_gradient(
            lambda mean: self._around(mean).count_nll(none), [inner.prediction]
        )
        p = ops.exp(-nll)
        square = ops.square(slope) * p
        zeros = rest * p / (self._zero + rest * p)
        return (inner.information() - square * (1 - zeros)) / rest

    def sample(self, count=None, seed=None):
        seed = seed_generator(seed)
        drawn = self.inner.sample(count, seed=seed)
        is_zero = self._uniform(count, seed) < self._zero
        return ops.where(is_zero, 0.0, drawn)
