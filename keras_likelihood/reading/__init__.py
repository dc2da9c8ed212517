"""Reads models, their files and tables."""

from keras_likelihood.reading.graphs import ModelGraph
from keras_likelihood.reading.loading import load_model
from keras_likelihood.reading.reading import Reading, read_model, read_output

__all__ = ["ModelGraph", "Reading", "load_model", "read_model", "read_output"]
