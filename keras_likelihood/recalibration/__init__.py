"""Recalibration of trained classifiers and, in `regression`, regressors.

It needs SciPy. `Isotonic` needs scikit-learn.
"""

from keras_likelihood.recalibration import regression
from keras_likelihood.recalibration.auto import AutoScaling
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.joint_scaling import (
    DeepScaling,
    GlobalScaling,
    JointScaling,
    LinearFeatureScaling,
    LinearScaling,
    MatrixScaling,
    VectorScaling,
)
from keras_likelihood.recalibration.one_vs_rest import Isotonic, Platt

__all__ = [
    "AutoScaling",
    "ClassifierRecalibrator",
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
