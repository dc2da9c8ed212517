"""The layers a calibrated model is made of; all save, export and serve."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.likelihoods import Softmax
from keras_likelihood.registration import serializable


@serializable
class PairedLogits(keras.Layer):
    """One logit `z` of a yes/no question as the two logits `(-z/2, z/2)`.

    Input `(batch, ..., 1)`, output `(batch, ..., 2)`.
    """

    def call(self, logits):
        return ops.concatenate([-0.5 * logits, 0.5 * logits], axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2)


@serializable
class SecondClass(keras.Layer):
    """The probability of yes: `(batch, ..., 2)` to `(batch, ..., 1)`."""

    def call(self, probabilities):
        return probabilities[..., 1:]

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 1)


@serializable
class LogProbabilities(keras.Layer):
    """`log softmax(z)`, kept above a floor.

    Args:
        floor: smallest log-probability, negative.
        from_logits: whether the input is logits (default) or probabilities.
    """

    def __init__(self, floor: float = -30.0, from_logits=True, **kwargs):
        super().__init__(**kwargs)
        self.floor = floor
        self.from_logits = from_logits

    def call(self, inputs):
        if self.from_logits:
            values = ops.log_softmax(inputs, axis=-1)
        else:
            values = ops.log(ops.maximum(inputs, np.exp(self.floor)))
        return ops.maximum(values, self.floor)

    def get_config(self):
        return {
            **super().get_config(),
            "floor": self.floor,
            "from_logits": self.from_logits,
        }


@serializable
class LogOdds(keras.Layer):
    """`log p - log(1 - p)` of yes/no probabilities, bounded in size.

    Args:
        bound: largest absolute value.
    """

    def __init__(self, bound: float = 16.0, **kwargs):
        super().__init__(**kwargs)
        self.bound = bound

    def call(self, probabilities):
        low = 1 / (1 + np.exp(self.bound))
        p = ops.clip(probabilities, low, 1 - low)
        return ops.log(p) - ops.log1p(-p)

    def get_config(self):
        return {**super().get_config(), "bound": self.bound}


@serializable
class TemperedProbabilities(keras.Layer):
    """`(logits, temperature)` to the probabilities of the softmax."""

    def call(self, inputs):
        logits, temperature = inputs
        return Softmax(logits, temperature=temperature).mean()

    def compute_output_shape(self, input_shape):
        return input_shape[0]


@serializable
class OneVsRestTable(keras.Layer):
    """Piecewise linear map of each class's score, read from a table.

    Bisection finds the interval of every score; outside of its knots a
    class keeps the value at the end. The results are normalised over the
    classes and mixed with the scores' own probabilities.

    Args:
        classes: number of classes.
        knots: length of each class's table, `>= 2`.
        mixture: weight of the probabilities before recalibration, in [0, 1].

    Input: log-probabilities `(batch, ..., classes)`. Output: probabilities.
    """

    def __init__(self, classes: int, knots: int, mixture=0.0, **kwargs):
        super().__init__(**kwargs)
        self.classes = classes
        self.knots = knots
        self.mixture = mixture

    def build(self, input_shape):
        size = (self.classes * self.knots,)
        self.scores = self.add_weight(
            name="scores", shape=size, initializer="zeros", trainable=False
        )
        self.values = self.add_weight(
            name="values", shape=size, initializer="zeros", trainable=False
        )

    def call(self, log_probabilities):
        x = ops.exp(log_probabilities)
        first = ops.arange(self.classes, dtype="int32") * self.knots
        low = ops.zeros_like(x, dtype="int32")
        high = low + (self.knots - 1)
        for _ in range(int(np.ceil(np.log2(self.knots)))):
            middle = (low + high) // 2
            right = ops.take(self.scores, first + middle) <= x
            low = ops.where(right, middle, low)
            high = ops.where(right, high, middle)
        low = ops.minimum(low, self.knots - 2) + first
        x0, x1 = ops.take(self.scores, low), ops.take(self.scores, low + 1)
        y0, y1 = ops.take(self.values, low), ops.take(self.values, low + 1)
        share = ops.clip(ops.divide_no_nan(x - x0, x1 - x0), 0.0, 1.0)
        mapped = y0 + share * (y1 - y0) + 1e-12
        mapped = mapped / ops.sum(mapped, axis=-1, keepdims=True)
        return (1 - self.mixture) * mapped + self.mixture * x

    def get_config(self):
        return {
            **super().get_config(),
            "classes": self.classes,
            "knots": self.knots,
            "mixture": self.mixture,
        }
