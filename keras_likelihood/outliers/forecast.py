"""How long a training will take, said while it has only begun."""

import time
from collections.abc import Callable

import keras

LONG = 60.0
"""Seconds from which the user is told."""
MEASURED = 1.0
"""Seconds of training that are enough to tell."""


class Forecast(keras.callbacks.Callback):
    """Says after about a second of training that it will take minutes.

    The first step is not counted: it compiles.

    Args:
        steps: the number of steps of the whole training.
        columns: the number of columns of the data.
        say: called with the sentence, if there is one to say.
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

    def on_train_batch_end(self, batch, logs=None):
        if self._told:
            return
        step, now = self._before + batch, time.perf_counter()
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
