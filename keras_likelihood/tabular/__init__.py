"""Estimators for tables: from rows to a distribution of the target.

It needs SciPy and scikit-learn.
"""

from keras_likelihood.tabular.classifier import Classifier
from keras_likelihood.tabular.regressor import Regressor
from keras_likelihood.tabular.table_estimator import load

__all__ = ["Classifier", "Regressor", "load"]
