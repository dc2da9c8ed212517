"""Recalibration of trained regressors."""

from keras_likelihood.recalibration.regression.conformal import Conformal
from keras_likelihood.recalibration.regression.isotonic import Isotonic
from keras_likelihood.recalibration.regression.predicted_scaling import (
    Auto,
    DeepScaling,
    LinearScaling,
)
from keras_likelihood.recalibration.regression.regressor import (
    GlobalScaling,
    RegressorRecalibrator,
)

__all__ = [
    "Auto",
    "Conformal",
    "DeepScaling",
    "GlobalScaling",
    "Isotonic",
    "LinearScaling",
    "RegressorRecalibrator",
]
