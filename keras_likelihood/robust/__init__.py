"""Robust regression and PCA with learned scales, for scikit-learn.

It needs SciPy and scikit-learn.
"""

from keras_likelihood.robust.affine_scale import AffineScaleRegressor
from keras_likelihood.robust.data_scale_regressor import DataScaleRegressor
from keras_likelihood.robust.predicted_scale_regressor import (
    PredictedScaleRegressor,
)
from keras_likelihood.robust.robust_pca import RobustPCA

__all__ = [
    "AffineScaleRegressor",
    "DataScaleRegressor",
    "PredictedScaleRegressor",
    "RobustPCA",
]
