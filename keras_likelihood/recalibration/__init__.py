"""Recalibration of trained classifiers and regressors."""

from keras_likelihood.recalibration.global_scaling import GlobalScaling
from keras_likelihood.recalibration.joint_scaling import JointScaling
from keras_likelihood.recalibration.linear_feature_scaling import (
    LinearFeatureScaling,
)
from keras_likelihood.recalibration.linear_scaling import LinearScaling
from keras_likelihood.recalibration.matrix_scaling import MatrixScaling
from keras_likelihood.recalibration.vector_scaling import VectorScaling

__all__ = [
    "GlobalScaling",
    "JointScaling",
    "LinearFeatureScaling",
    "LinearScaling",
    "MatrixScaling",
    "VectorScaling",
]
