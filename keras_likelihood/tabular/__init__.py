"""Estimators that predict the distribution of a target from a table.

They need SciPy and scikit-learn.
"""

from keras_likelihood.tabular.classifier import Classifier
from keras_likelihood.tabular.regressor import Regressor
from keras_likelihood.tabular.table_estimator import load

__all__ = ["Classifier", "Regressor", "load"]
