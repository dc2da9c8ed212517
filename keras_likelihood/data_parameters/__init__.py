"""Likelihood parameters with one value per training example."""

from keras_likelihood.data_parameters.data_parameter import DataParameter
from keras_likelihood.data_parameters.indexed import indexed
from keras_likelihood.data_parameters.indexed_batches import IndexedBatches
from keras_likelihood.data_parameters.table_files import copy, verify

__all__ = ["DataParameter", "IndexedBatches", "copy", "indexed", "verify"]
