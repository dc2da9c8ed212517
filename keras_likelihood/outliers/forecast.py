"""An early estimate of the time that a training will take."""

import time
from collections.abc import Callable

import keras

LONG = 60.0
"""Trainings shorter than so many seconds are not announced."""
MEASURED = 1.0
"""Seconds of training before the estimate."""


class Forecast(keras.callbacks.Callback):
    """Tells the user early that a training will take minutes.

    The first step is not counted, because it compiles.

    Args:
        steps: the number of steps of the whole training.
        columns: the number of columns of the data.
        say: function that gets the sentence.
    """

    def __init__(self, steps: int, columns: int, say: Callable[[str], None]):
        super().__init__()
        self.steps = steps
        self.columns = columns
        self.say = say
        self._start = None
        self._told = False
        self._before = 0

    def on_epoch_begin(self, epoch, logs=None):
        self._before = epoch * self.params["steps"]

    def on_train_batch_begin(self, batch, logs=None):
        # For a method at the end of a batch Keras waits for every step.
        step = self._before + batch
        if self._told or step == 0:
            return
        now = time.perf_counter()
        if self._start is None:
            self._start = (step, now)
            return
        steps, seconds = step - self._start[0], now - self._start[1]
        if seconds < MEASURED:
            return
        self._told = True
        left = (self.steps - step) * seconds / steps
        if left > LONG:
            self.say(
                f"Training will take about {left / 60:.0f} more minute(s): "
                f"{self.steps:,} steps on {self.columns:,} columns. Fewer "
                "steps or columns take less time."
            )
