"""Batches for trainings of many steps."""

import keras
import numpy as np


class Repeated(keras.utils.PyDataset):
    """One batch again and again: many steps in one epoch.

    What Keras does between two epochs takes longer than a small step.

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
    """The rows of data `count` times, for an epoch in place of many.

    Args:
        count: how many times.
        *data: arrays, or nests of arrays.
    """
    rows = np.tile(np.arange(len(keras.tree.flatten(data)[0])), count)
    return keras.tree.map_structure(lambda array: array[rows], data)
