"""Models side by side, by the likelihood of data they have not seen."""

from keras_likelihood.comparison.compare import compare
from keras_likelihood.comparison.comparison import Comparison, ComparisonRow

__all__ = ["Comparison", "ComparisonRow", "compare"]
