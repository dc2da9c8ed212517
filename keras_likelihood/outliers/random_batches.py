"""Batches of rows in random order, as many as asked for."""

import keras
import numpy as np


class RandomBatches(keras.utils.PyDataset):
    """Rows as inputs and targets, in an order drawn anew each epoch.

    An epoch is a number of steps, not a pass over the rows: few rows would
    make epochs of a step each, and Keras' work between epochs would cost
    more than the training.

    Args:
        x: `(n, d)`.
        steps: of an epoch.
        batch_size: rows a step, drawn without repetition until all were.
        random: a `numpy.random.RandomState`.
    """

    def __init__(self, x, *, steps, batch_size, random):
        super().__init__()
        self.x = x
        self.steps = steps
        self._batch_size = batch_size
        self._random = random
        self._left = np.empty(0, "int64")
        self.on_epoch_end()

    def on_epoch_end(self):
        needed = self.steps * self._batch_size
        parts = [self._left]
        while sum(map(len, parts)) < needed:
            parts.append(self._random.permutation(len(self.x)))
        order = np.concatenate(parts)
        self._left = order[needed:]
        self._order = order[:needed].reshape(self.steps, -1)

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        rows = self.x[self._order[step]]
        return rows, rows
