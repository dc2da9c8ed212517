"""Stops training whose first loss is not a number."""

import math

import keras


class FirstBatch(keras.callbacks.Callback):
    """Raises if the loss of the first batch is NaN.

    Compiled code cannot refuse a target. A label outside its range and a NaN
    target both give a loss of NaN, which would ruin every weight.

    Keras waits for the device after every batch if a callback looks at each
    of them, unless the callback may look a little later, in another thread.
    So the error may come a few batches after the first.
    """

    async_safe = True

    def __init__(self):
        super().__init__()
        self._seen = False

    def on_train_begin(self, logs=None):
        self._seen = False

    def on_train_batch_end(self, batch, logs=None):
        if self._seen or "loss" not in (logs or {}):
            return
        self._seen = True
        if math.isnan(float(logs["loss"])):
            raise ValueError(
                "The loss of the first batch is NaN. Look for NaN among inputs "
                "and targets, for labels outside of their range, and for "
                "predictions outside of theirs: a mean that must be positive "
                "needs a head or an activation such as 'softplus'. "
                f"Received: loss={float(logs['loss'])}"
            )
