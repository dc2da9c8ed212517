"""Sharpness of regressors as a streaming Keras metric."""

import keras

from keras_likelihood.registration import serializable


@serializable
class Sharpness(keras.metrics.Mean):
    """Mean predicted scale; small is sharp.

    Predictions: `(prediction, scale, ...)`.
    """

    def __init__(self, *, name: str = "sharpness", dtype=None):
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_pred[1], sample_weight)
