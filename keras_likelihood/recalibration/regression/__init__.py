"""Recalibration of trained regressors."""

from keras_likelihood.recalibration.regression.conformal import Conformal
from keras_likelihood.recalibration.regression.deep_scaling import DeepScaling
from keras_likelihood.recalibration.regression.global_scaling import (
    GlobalScaling,
)
from keras_likelihood.recalibration.regression.isotonic import Isotonic
from keras_likelihood.recalibration.regression.linear_scaling import (
    LinearScaling,
)
from keras_likelihood.recalibration.regression.regressor import (
    RegressorRecalibrator,
)

__all__ = [
    "Conformal",
    "DeepScaling",
    "GlobalScaling",
    "Isotonic",
    "LinearScaling",
    "RegressorRecalibrator",
]
