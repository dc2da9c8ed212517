"""Counts invalid rows inside compiled training steps."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.types import Tensor


class Counts(keras.Variable):
    """Counts of entries that a data parameter could not use.

    A compiled step cannot raise an error. It counts, and `raise_any` raises
    between two steps. In files of version 0.1 it has another shape.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            np.zeros(5, "int32"),
            dtype="int32",
            trainable=False,
            # All replicas count the same joint batch.
            aggregation="only_first_replica",
            name=name,
        )

    def count(self, outside: Tensor, not_finite: Tensor, index: Tensor) -> None:
        """Adds the masks `(batch,)` of unknown rows and non-finite updates."""
        steps, *totals, first, row = ops.unstack(ops.convert_to_tensor(self), 5)
        marks = ops.cast(ops.stack([outside, not_finite]), "int32")
        added = ops.sum(marks, axis=1)
        is_first = ops.logical_and(first == 0, ops.any(added > 0))
        highest = ops.max(ops.where(not_finite, ops.cast(index, "int32"), 0))
        after = [
            steps + 1,
            totals[0] + added[0],
            totals[1] + added[1],
            ops.where(is_first, steps + 1, first),
            ops.maximum(row, highest),
        ]
        self.assign(ops.stack(after))

    def reset(self) -> None:
        """Resets all counts."""
        self.assign(np.zeros(5, "int32"))

    def raise_any(self, name: str | None, num_rows: int) -> None:
        """Resets, and raises an error if there were invalid entries."""
        _, outside, not_finite, batch, row = ops.convert_to_numpy(self)
        if not outside and not not_finite:
            return
        self.reset()
        where = f"first in batch {batch} since training began"
        if outside:
            raise ValueError(
                f"The data {name} has rows 0 to {num_rows - 1}. "
                "Set `num_examples` to the size of the whole training set, or "
                "number the examples from 0. Other indices were ignored. "
                f"Received: {outside} index(es) outside, {where}"
            )
        raise ValueError(
            f"The rows of the data {name} must be finite. Check the inputs and "
            "targets for NaN and infinity, or lower the learning rate of the "
            "model. The affected rows were not changed. "
            f"Received: {not_finite} row(s) that would not be finite, "
            f"{where}, such as row {row}"
        )
