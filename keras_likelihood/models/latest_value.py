"""A metric that shows the latest value of something."""

import keras
from keras import ops


class LatestValue(keras.metrics.Metric):
    """Reports the mean over the elements of the latest value.

    >>> metric = LatestValue(name="scale")
    >>> metric.update_state([1.0, 3.0])
    >>> metric.result()
    2.0
    """

    def __init__(self, name: str, dtype=None):
        super().__init__(name=name, dtype=dtype)
        # All replicas have the same value, and Keras would add these values.
        self.value = self.add_variable(
            (), "zeros", aggregation="mean", name="value"
        )

    def update_state(self, value, sample_weight=None):
        self.value.assign(ops.cast(ops.mean(value), self.value.dtype))

    def result(self):
        return ops.convert_to_tensor(self.value)
