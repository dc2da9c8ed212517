"""Stops training whose first loss is not a number."""

import keras
import numpy as np


class FirstBatch(keras.callbacks.Callback):
    """Raises if the loss of the first batch is NaN.

    Compiled code cannot raise an error about a target. A label outside of its
    range and a NaN target both give a loss of NaN. This would turn every
    weight into NaN.

    The check runs before the second batch. A check after every batch would
    make Keras wait for the device each time.
    """

    def __init__(self):
        super().__init__()
        self._begun = self._seen = False

    def on_train_begin(self, logs=None):
        self._begun = self._seen = False

    def on_train_batch_begin(self, batch, logs=None):
        if self._begun and not self._seen:
            # On JAX, reading `self.model` updates the variables of the model.
            tracked = [m for m in self.model.metrics if m.name == "loss"]
            self._check([v.numpy() for m in tracked for v in m.variables])
        self._begun = True

    def on_epoch_end(self, epoch, logs=None):
        if not self._seen:
            self._check([(logs or {}).get("loss", 0.0)])

    def _check(self, values):
        self._seen = True
        if any(np.isnan(value).any() for value in values):
            raise ValueError(
                "The loss of the first batch is NaN. Look for NaN among inputs "
                "and targets, for labels outside of their range, and for "
                "predictions outside of theirs: a mean that must be positive "
                "needs a head or an activation such as 'softplus'. "
                "Received: loss=nan"
            )
