"""Layers of calibrated models, which can be saved and exported.

Their arguments are plain values, which Keras saves without a `get_config`.
"""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods import Softmax
from keras_likelihood.likelihoods.mixture import EnsembleDistribution
from keras_likelihood.likelihoods.output import distribution_of


@serializable
class PairedLogits(keras.Layer):
    """Maps a binary logit `z` to the two logits `(-z/2, z/2)`.

    Input `(batch, ..., 1)`, output `(batch, ..., 2)`.
    """

    def call(self, logits):
        return ops.concatenate([-0.5 * logits, 0.5 * logits], axis=-1)


@serializable
class SecondClass(keras.Layer):
    """Selects the probability of class 1 from `(batch, ..., 2)`."""

    def call(self, probabilities):
        return probabilities[..., 1:]


class _Bounded(keras.Layer):
    def __init__(self, bound: float, **kwargs):
        super().__init__(**kwargs)
        self.bound = bound

    @classmethod
    def from_config(cls, config):
        # `bound` was named `spread` in files of version 0.1.
        names = {"spread": "bound"}
        return cls(**{names.get(k, k): value for k, value in config.items()})


@serializable
class BoundedLogits(_Bounded):
    """Clips logits to at most `bound` below the largest of their row.

    A binary logit is clipped to `[-bound, bound]`.
    """

    def call(self, logits):
        if logits.shape[-1] == 1:
            return ops.clip(logits, -self.bound, self.bound)
        peak = ops.max(logits, axis=-1, keepdims=True)
        return ops.maximum(logits, peak - self.bound)


@serializable
class LogSoftmax(keras.Layer):
    """Maps logits to log-probabilities."""

    def call(self, logits):
        return ops.log_softmax(logits, axis=-1)


@serializable
class SortedColumns(keras.Layer):
    """Sorts the last axis in ascending order."""

    def call(self, inputs):
        return ops.sort(inputs, axis=-1)


@serializable
class LinearPool(keras.Layer):
    """Weighted mean of a list of probabilities `(batch, ..., classes)`.

    The weights, one number `>= 0` per classifier, sum to 1.
    """

    def __init__(self, weights, **kwargs):
        super().__init__(**kwargs)
        self.weights_of_inputs = [float(weight) for weight in weights]

    def call(self, inputs):
        pairs = zip(self.weights_of_inputs, inputs, strict=True)
        return sum(weight * p for weight, p in pairs)


@serializable
class LikelihoodPrediction(keras.Layer):
    """Identity layer that stores the name of the prediction's likelihood."""

    def __init__(self, likelihood: str, **kwargs):
        super().__init__(**kwargs)
        self.likelihood = likelihood

    def call(self, inputs):
        return inputs


@serializable
class LogProbabilities(_Bounded):
    """`log p` of class probabilities, at least `-2 bound`."""

    def call(self, probabilities):
        return ops.log(ops.maximum(probabilities, np.exp(-2 * self.bound)))


@serializable
class LogOdds(_Bounded):
    """`log p - log(1 - p)` of binary probabilities, in `[-bound, bound]`."""

    def __init__(self, bound: float = 16.0, **kwargs):
        super().__init__(bound, **kwargs)

    def call(self, probabilities):
        low = 1 / (1 + np.exp(self.bound))
        p = ops.clip(probabilities, low, 1 - low)
        return ops.log(p) - ops.log1p(-p)


@serializable
class TemperedLogits(keras.Layer):
    """Divides logits by a temperature. Input: `(logits, temperature)`."""

    def call(self, inputs):
        logits, temperature = inputs
        return Softmax(logits, temperature=temperature).logits


@serializable
class TemperedProbabilities(TemperedLogits):
    """Softmax with a temperature. Input: `(logits, temperature)`."""

    def call(self, inputs):
        return ops.softmax(super().call(inputs))


@serializable
class PooledLogits(keras.Layer):
    """Pools the outputs of an ensemble's members.

    Args:
        likelihood: name of the members' likelihood, softmax or bernoulli.
        components: number of members.
        temperature: temperature of the members, if it is not predicted.

    Input: `[member]` or `[member, temperature]`, see `EnsembleDistribution`.
    Output: logits of the mean probabilities.
    """

    def __init__(
        self, likelihood: str, components: int, temperature=1.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.likelihood = likelihood
        self.components = components
        self.temperature = temperature

    def call(self, inputs):
        member, *predicted = inputs
        count = self.components
        pooled: Any = EnsembleDistribution(self.likelihood, components=count)
        first = member[..., : member.shape[-1] // count]
        given = predicted[0] if predicted else self.temperature
        return pooled(first, member=member, temperature=given).prediction


@serializable
class ClassLogits(keras.Layer):
    """Logits of a likelihood of classes with one unit, such as ordinal.

    Args:
        likelihood: name of the likelihood.
        known: dict of the parameters that are not in the input.

    Input: `[prediction, parameter, ...]`. Output: log-probabilities
    `(batch, ..., classes)`.
    """

    def __init__(self, likelihood: str, known: dict, **kwargs):
        super().__init__(**kwargs)
        self.likelihood = likelihood
        self.known = dict(known)

    def call(self, inputs):
        kind = likelihoods.get(self.likelihood)
        found = distribution_of(kind, inputs, known=self.known)
        p = found.class_probabilities()[..., 0, :]
        return ops.log(ops.maximum(p, 1e-30))


@serializable
class OneVsRestTable(keras.Layer):
    """Piecewise linear map of each class's log-odds, from a table.

    Bisection finds the interval of each score. Outside of the table, the map is
    constant. The results are normalised over the classes and mixed with the
    softmax of the logits.

    Args:
        classes: number of classes.
        knots: length of each class's table, `>= 2`.
        bound: maximum absolute value of the log-odds.
        mixture: weight of the softmax, in [0, 1].
    """

    def __init__(
        self, classes: int, knots: int, bound: float, mixture=0.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.classes = classes
        self.knots = knots
        self.bound = bound
        self.mixture = mixture

    def build(self, input_shape):
        size = (self.classes * self.knots,)
        self.scores, self.values = (
            self.add_weight(size, "zeros", trainable=False, name=name)
            for name in ("scores", "values")
        )

    def call(self, logits):
        mapped = self._interpolate(log_odds(logits, self.bound)) + 1e-12
        mapped = mapped / ops.sum(mapped, axis=-1, keepdims=True)
        plain = ops.softmax(logits, axis=-1)
        return (1 - self.mixture) * mapped + self.mixture * plain

    def _interpolate(self, x):
        first = ops.arange(self.classes, dtype="int32") * self.knots
        low = ops.zeros_like(x, dtype="int32")
        high = low + (self.knots - 1)
        for _ in range(int(np.ceil(np.log2(self.knots)))):
            middle = (low + high) // 2
            right = _at(self.scores, first + middle) <= x
            low = ops.where(right, middle, low)
            high = ops.where(right, high, middle)
        low = ops.minimum(low, self.knots - 2) + first
        x0, x1 = _at(self.scores, low), _at(self.scores, low + 1)
        y0, y1 = _at(self.values, low), _at(self.values, low + 1)
        share = ops.clip(ops.divide_no_nan(x - x0, x1 - x0), 0.0, 1.0)
        return y0 + share * (y1 - y0)


def log_odds(logits, bound, xp: Any = ops):
    """`z_c - logsumexp(z without c)`, in `[-bound, bound]`.

    The sum over the other classes omits the largest exponential. Subtracting it
    from the whole sum would leave only rounding errors. `xp` is `keras.ops` or
    NumPy.
    """
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    size, top = xp.exp(shifted), xp.where(shifted >= 0, 1.0, 0.0)
    count = xp.sum(top, axis=-1, keepdims=True)
    others = xp.sum(size * (1 - top), axis=-1, keepdims=True)
    rest = others + (count - 1) + (1 - top) * (1 - size)
    return xp.clip(shifted - xp.log(xp.maximum(rest, 1e-30)), -bound, bound)


def _at(table, index):
    # PyTorch can export lookups in a table with one column to ONNX.
    return ops.take(ops.reshape(table, (-1, 1)), index, axis=0)[..., 0]
