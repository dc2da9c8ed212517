"""Batches for trainings of many steps."""

import keras


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
