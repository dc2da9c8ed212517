"""Estimators for tables: from rows to a distribution of the target.

It needs SciPy and scikit-learn.
"""

from keras_likelihood.tabular.estimators import Classifier, Regressor, load
from keras_likelihood.tabular.layers import TableFeatures
from keras_likelihood.tabular.network import MemberNetworks

__all__ = [
    "Classifier",
    "MemberNetworks",
    "Regressor",
    "TableFeatures",
    "load",
]
