"""Coverage of prediction intervals as a streaming Keras metric."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.censored import is_exact
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
        if not (distribution.is_discrete or distribution.takes_bounds):
            return _nan_where_nan(
                ops.logical_and(cdf >= tail, cdf <= 1 - tail), cdf
            )
        below = distribution.cdf_below(y_true)
        # The target is at most the upper quantile if the probability below
        # the target is less than that of the quantile.
        inside = ops.logical_and(cdf >= tail, below < 1 - tail)
        inside = _nan_where_nan(inside, cdf)
        if not distribution.takes_bounds:
            return inside
        jump = cdf - below
        ends = (ops.clip(p, tail, 1 - tail) for p in (cdf, below))
        covered = ops.subtract(*ends) / ops.where(jump > 0, jump, 1.0)
        exact = is_exact(y_true, distribution.prediction)
        return ops.where(ops.logical_or(exact, jump <= 0), inside, covered)

    def get_config(self):
        return {**super().get_config(), "coverage": self.coverage}


def _nan_where_nan(inside, cdf):
    return ops.where(ops.isnan(cdf), cdf, ops.cast(inside, cdf.dtype))
