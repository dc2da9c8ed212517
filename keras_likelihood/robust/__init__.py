"""Robust classics with learned scales, as scikit-learn estimators.

Needs SciPy and scikit-learn.
"""

from keras_likelihood.robust.affine_scale import AffineScaleRegressor
from keras_likelihood.robust.dpls import DataScaleRegressor
from keras_likelihood.robust.mpls import PredictedScaleRegressor
from keras_likelihood.robust.robust_pca import RobustPCA

__all__ = [
    "AffineScaleRegressor",
    "DataScaleRegressor",
    "PredictedScaleRegressor",
    "RobustPCA",
]
