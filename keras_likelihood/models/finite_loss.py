"""Stops a training whose loss is not a number."""

import keras
import numpy as np


class FiniteLoss(keras.callbacks.Callback):
    """Raises an error if the loss is NaN.

    Compiled code cannot raise an error about a target. A label outside of its
    range and a NaN target both give a loss of NaN. Such a target does not
    change the weights, but the training is of no use.

    The loss is looked at before batches 1, 8, 64, ... of a training, counted
    from 0, and after every epoch. Looking at it more often would make Keras
    wait for the device each time.
    """

    def on_train_begin(self, logs=None):
        self._batches, self._next = 0, 1

    def on_train_batch_begin(self, batch, logs=None):
        if self._batches == self._next:
            self._next *= 8
            # On JAX, reading `self.model` updates the variables of the model.
            tracked = [m for m in self.model.metrics if m.name == "loss"]
            self._check([v.numpy() for m in tracked for v in m.variables])
        self._batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self._check([(logs or {}).get("loss", 0.0)])

    def _check(self, values):
        if any(np.isnan(value).any() for value in values):
            raise ValueError(
                "The loss is NaN. Look for NaN among inputs and targets, for "
                "labels outside of their range, and for predictions outside "
                "of theirs: a mean that must be positive needs a head or an "
                "activation such as 'softplus'. Received: loss=nan"
            )
