"""CRPS of normal predictions as a streaming Keras metric."""

import math

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.metrics.distributions import as_distribution
from keras_likelihood.registration import serializable


@serializable
class NormalCRPS(keras.metrics.Mean):
    """Continuous ranked probability score of normal predictions.

        CRPS = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)),
        z = (y - prediction) / s

    Predictions: `(prediction, scale)`.
    """

    def __init__(self, *, name: str = "normal_crps", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        normal, y_true = as_distribution(
            likelihoods.Normal, y_true, y_pred, {}, self.dtype
        )
        z = normal.standardize(y_true)
        density = ops.exp(-0.5 * ops.square(z)) / math.sqrt(2 * math.pi)
        score = z * ops.erf(z / math.sqrt(2)) + 2 * density
        score = normal.scale * (score - 1 / math.sqrt(math.pi))
        super().update_state(score, sample_weight)
