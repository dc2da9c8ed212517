"""What `keras-likelihood demo` shows."""

from keras_likelihood.demo.show import run

__all__ = ["run"]
