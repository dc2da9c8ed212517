"""Compares models by the likelihood of held-out data."""

from keras_likelihood.comparison.compare import compare
from keras_likelihood.comparison.comparison import Comparison, ComparisonRow

__all__ = ["Comparison", "ComparisonRow", "compare"]
