"""Robust classics with learned scales, as scikit-learn estimators.

Needs SciPy and scikit-learn.
"""

from keras_likelihood.robust.dpls import DataScaleRegressor
from keras_likelihood.robust.mpls import PredictedScaleRegressor
from keras_likelihood.robust.robust_pca import RobustPCA

__all__ = ["DataScaleRegressor", "PredictedScaleRegressor", "RobustPCA"]
