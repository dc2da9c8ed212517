"""Recalibration of trained classifiers and, in `regression`, regressors.

It needs SciPy. `Isotonic` needs scikit-learn.
"""

from keras_likelihood.recalibration import regression
from keras_likelihood.recalibration.auto import Auto
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.conformal import Conformal
from keras_likelihood.recalibration.deep_scaling import DeepScaling
from keras_likelihood.recalibration.global_scaling import GlobalScaling
from keras_likelihood.recalibration.isotonic import Isotonic
from keras_likelihood.recalibration.joint_scaling import JointScaling
from keras_likelihood.recalibration.linear_feature_scaling import (
    LinearFeatureScaling,
)
from keras_likelihood.recalibration.linear_scaling import LinearScaling
from keras_likelihood.recalibration.matrix_scaling import MatrixScaling
from keras_likelihood.recalibration.platt import Platt
from keras_likelihood.recalibration.vector_scaling import VectorScaling

__all__ = [
    "Auto",
    "ClassifierRecalibrator",
    "Conformal",
    "DeepScaling",
    "GlobalScaling",
    "Isotonic",
    "JointScaling",
    "LinearFeatureScaling",
    "LinearScaling",
    "MatrixScaling",
    "Platt",
    "VectorScaling",
    "regression",
]
