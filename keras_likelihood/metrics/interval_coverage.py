"""Coverage of prediction intervals as a streaming Keras metric."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.metrics.distribution_metric import MeanOverOutcomes
from keras_likelihood.metrics.functions import check_coverage


@serializable
class IntervalCoverage(MeanOverOutcomes):
    """Share of targets inside the central interval of a given coverage.

    The interval includes both of its ends, which matters where outcomes are
    whole numbers. A target that is known by bounds counts by the part of the
    probability between the bounds that lies inside.

    Args:
        coverage: the probability that the interval should contain the target,
            in (0, 1). Defaults to 0.9.
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
        inside = ops.logical_and(cdf >= tail, cdf <= 1 - tail)
        if not (distribution.is_discrete or distribution.takes_bounds):
            return inside
        below = distribution.cdf_below(y_true)
        if not distribution.takes_bounds:
            # The target is at most the upper quantile if the probability below
            # the target is less than that of the quantile.
            return ops.logical_and(cdf >= tail, below < 1 - tail)
        jump = cdf - below
        covered = ops.clip(cdf, tail, 1 - tail) - ops.clip(
            below, tail, 1 - tail
        )
        return ops.where(
            jump > 0,
            covered / ops.where(jump > 0, jump, 1.0),
            ops.cast(inside, cdf.dtype),
        )

    def get_config(self):
        return {**super().get_config(), "coverage": self.coverage}
