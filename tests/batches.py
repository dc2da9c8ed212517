"""Batches for training with many steps."""

import keras
import numpy as np


class Repeated(keras.utils.PyDataset):
    """Repeats one batch, for many steps in one epoch.

    The overhead of Keras between two epochs is larger than a small step.

    Args:
        steps: how many times.
        *batch: what each step gets.
    """

    def __init__(self, steps, *batch):
        super().__init__()
        self.steps, self.batch = steps, batch

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        return self.batch


def many_times(count, *data):
    """Repeats the rows of data `count` times, for one long epoch.

    Args:
        count: how many times.
        *data: arrays, or nests of arrays.
    """
    rows = np.tile(np.arange(len(keras.tree.flatten(data)[0])), count)
    return keras.tree.map_structure(lambda array: array[rows], data)
