"""Conformal prediction: sets and intervals with guaranteed coverage."""

from keras_likelihood.conformal.conformal_intervals import (
    AdaptiveIntervals,
    ConformalIntervals,
)
from keras_likelihood.conformal.conformal_sets import (
    ConformalClassifier,
    ConformalSets,
)
from keras_likelihood.conformal.intervals import (
    ConformalDistribution,
    ConformalRegressor,
)

__all__ = [
    "AdaptiveIntervals",
    "ConformalClassifier",
    "ConformalDistribution",
    "ConformalIntervals",
    "ConformalRegressor",
    "ConformalSets",
]
