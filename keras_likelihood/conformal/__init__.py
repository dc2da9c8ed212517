"""Conformal prediction: sets and intervals with guaranteed coverage."""

from keras_likelihood.conformal.adaptive import AdaptiveIntervals
from keras_likelihood.conformal.conformal_intervals import ConformalIntervals
from keras_likelihood.conformal.conformal_sets import ConformalSets
from keras_likelihood.conformal.models import (
    ConformalClassifier,
    ConformalRegressor,
)
from keras_likelihood.conformal.prediction import ConformalDistribution

__all__ = [
    "AdaptiveIntervals",
    "ConformalClassifier",
    "ConformalDistribution",
    "ConformalIntervals",
    "ConformalRegressor",
    "ConformalSets",
]
