"""Robust regression and PCA with learned scales, for scikit-learn.

It needs SciPy and scikit-learn.
"""

from keras_likelihood.robust.robust_pca import RobustPCA
from keras_likelihood.robust.scale_regressors import (
    DataScaleRegressor,
    PredictedScaleRegressor,
)

__all__ = ["DataScaleRegressor", "PredictedScaleRegressor", "RobustPCA"]
