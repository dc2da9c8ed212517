"""What `keras-likelihood demo` shows: four stories."""

from keras_likelihood.demo.stories import TITLE, run

__all__ = ["TITLE", "run"]
