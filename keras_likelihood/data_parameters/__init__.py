"""Likelihood parameters with one value per training example."""

from keras_likelihood.data_parameters.data_parameter import DataParameter
from keras_likelihood.data_parameters.indexed import indexed
from keras_likelihood.data_parameters.sparse_rms_prop import (
    SparseRMSProp,
    SparseSGD,
)
from keras_likelihood.data_parameters.tables import FileTable

__all__ = [
    "DataParameter",
    "FileTable",
    "SparseRMSProp",
    "SparseSGD",
    "indexed",
]
