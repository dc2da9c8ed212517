"""Coverage of prediction intervals as a streaming Keras metric."""

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.metrics.distributions import as_distribution
from keras_likelihood.metrics.functions import check_coverage
from keras_likelihood.registration import serializable


@serializable
class IntervalCoverage(keras.metrics.Mean):
    """Share of targets inside the central interval of a given coverage.

    Args:
        coverage: probability the interval promises, in (0, 1). Defaults to
            0.9.
        likelihood: a `Likelihood` or its name. Defaults to `"normal"`.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    def __init__(
        self,
        coverage: float = 0.9,
        *,
        likelihood="normal",
        name: str = "interval_coverage",
        dtype=None,
        **parameters,
    ):
        super().__init__(name=name, dtype=dtype)
        check_coverage(coverage)
        self.coverage = coverage
        self.likelihood = likelihoods.get(likelihood)
        self.parameters = parameters

    def update_state(self, y_true, y_pred, sample_weight=None):
        distribution, y_true = as_distribution(
            self.likelihood, y_true, y_pred, self.parameters, self.dtype
        )
        cdf = distribution.cdf(y_true)
        tail = (1 - self.coverage) / 2
        inside = ops.logical_and(cdf >= tail, cdf <= 1 - tail)
        super().update_state(ops.cast(inside, self.dtype), sample_weight)

    def get_config(self):
        return {
            **super().get_config(),
            "coverage": self.coverage,
            "likelihood": self.likelihood.name(),
            **self.parameters,
        }
