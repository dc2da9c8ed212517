"""Coverage of prediction intervals as a streaming Keras metric."""

from keras import ops

from keras_likelihood.metrics.distribution_metric import MeanOverOutcomes
from keras_likelihood.metrics.functions import check_coverage
from keras_likelihood.registration import serializable


@serializable
class IntervalCoverage(MeanOverOutcomes):
    """Share of targets inside the central interval of a given coverage.

    The interval includes both of its ends, which matters where outcomes are
    whole numbers.

    Args:
        coverage: probability the interval promises, in (0, 1). Defaults to
            0.9.
        likelihood: as in `DistributionMetric`.
        name, dtype: as in `keras.metrics.Metric`.
        **parameters: fixed values of parameters that the output lacks.
    """

    def __init__(
        self,
        coverage: float = 0.9,
        *,
        likelihood=None,
        name: str = "interval_coverage",
        dtype=None,
        **parameters,
    ):
        super().__init__(likelihood, name=name, dtype=dtype, **parameters)
        check_coverage(coverage)
        self.coverage = coverage

    def values(self, distribution, y_true):
        cdf = distribution.cdf(y_true)
        tail = (1 - self.coverage) / 2
        if not distribution.is_discrete:
            return ops.logical_and(cdf >= tail, cdf <= 1 - tail)
        # At most the upper quantile: less than it lies below the target.
        below = distribution.cdf_below(y_true)
        return ops.logical_and(cdf >= tail, below < 1 - tail)

    def get_config(self):
        return {**super().get_config(), "coverage": self.coverage}
