"""Estimators for tables: from rows to a distribution of the target.

It needs SciPy and scikit-learn.
"""

from keras_likelihood.tabular.classifier import Classifier
from keras_likelihood.tabular.layers import TableFeatures
from keras_likelihood.tabular.loading import load
from keras_likelihood.tabular.network import MemberNetworks
from keras_likelihood.tabular.regressor import Regressor

__all__ = [
    "Classifier",
    "MemberNetworks",
    "Regressor",
    "TableFeatures",
    "load",
]
