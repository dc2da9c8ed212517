"""Compares models by the likelihood of held-out data."""

from keras_likelihood.comparison.compare import (
    Comparison,
    ComparisonRow,
    compare,
)

__all__ = ["Comparison", "ComparisonRow", "compare"]
