"""Recalibration of trained classifiers and, in `regression`, regressors.

It needs SciPy.
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

__all__ = [
    "AutoScaling",
    "ClassifierRecalibrator",
    "DeepScaling",
    "GlobalScaling",
    "JointScaling",
    "LinearFeatureScaling",
    "LinearScaling",
    "MatrixScaling",
    "VectorScaling",
    "regression",
]
