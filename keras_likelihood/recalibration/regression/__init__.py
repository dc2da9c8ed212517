"""Recalibration of trained regressors."""

from keras_likelihood.recalibration.regression.predicted_scaling import (
    AutoRescaling,
    DeepRescaling,
    LinearRescaling,
)
from keras_likelihood.recalibration.regression.regressor import (
    GlobalRescaling,
    RegressorRecalibrator,
)

__all__ = [
    "AutoRescaling",
    "DeepRescaling",
    "GlobalRescaling",
    "LinearRescaling",
    "RegressorRecalibrator",
]
