"""Counts invalid rows inside compiled training steps."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.types import Tensor


class Counts(keras.Variable):
    """Numbers of unknown rows and of non-finite updates.

    A compiled step cannot raise an error. It counts, and `raise_any` raises
    between two steps.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            np.zeros(2, "int32"),
            dtype="int32",
            trainable=False,
            # All replicas count the same joint batch.
            aggregation="only_first_replica",
            name=name,
        )

    def count(self, outside: Tensor, not_finite: Tensor) -> None:
        """Adds masks `(batch,)`."""
        marks = ops.cast(ops.stack([outside, not_finite]), "int32")
        self.assign(ops.convert_to_tensor(self) + ops.sum(marks, axis=1))

    def reset(self) -> None:
        self.assign(np.zeros(2, "int32"))

    def raise_any(self, name: str | None, num_rows: int) -> None:
        """Resets, and raises an error if there were invalid entries."""
        outside, not_finite = ops.convert_to_numpy(self)
        if outside or not_finite:
            self.reset()
        if outside:
            raise ValueError(
                f"The data {name} has rows 0 to {num_rows - 1}. "
                "Set `num_examples` to the size of the whole training set, or "
                "number the examples from 0. Other indices were ignored. "
                f"Received: {outside} index(es) outside since training began"
            )
        if not_finite:
            raise ValueError(
                f"The rows of the data {name} must be finite. Check the inputs "
                "and targets for NaN and infinity, or lower the learning rate "
                "of the model. The affected rows were not changed. Received: "
                f"{not_finite} row(s) that would not be finite"
            )
