"""What the steps of a training refused, counted inside of them."""

import keras
import numpy as np
from keras import ops


class Counts(keras.Variable):
    """Counts of entries that a data parameter could not use.

    A compiled step cannot raise an error. It counts, and `raise_any` reports
    between two steps. Files of version 0.1 have another shape.
    """

    def __init__(self, name: str):
        super().__init__(
            np.zeros(5, "int32"),
            dtype="int32",
            trainable=False,
            # Replicas count the joint batch, each the same.
            aggregation="only_first_replica",
            name=name,
        )

    def count(self, outside, not_finite, index):
        """Adds the entries `(batch,)` without a row or with one not finite."""
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

    def reset(self):
        """Forgets what was counted."""
        self.assign(np.zeros(5, "int32"))

    def raise_any(self, name: str | None, num_rows: int):
        """Raises if something was refused since `reset`, and resets."""
        _, outside, not_finite, batch, row = ops.convert_to_numpy(self)
        if not outside and not not_finite:
            return
        self.reset()
        where = f"first in batch {batch} since training began"
        if outside:
            raise ValueError(
                f"The data {name} has rows 0 to {num_rows - 1}; "
                "set `num_examples` to the size of the whole training set, or "
                "number the examples from 0. No row was moved by the others. "
                f"Received: {outside} index(es) outside, {where}"
            )
        raise ValueError(
            f"The data {name} keeps only finite rows. Look for NaN and "
            "infinity in the inputs and targets, or lower the learning rate "
            "of the model; the rows are as they were before. "
            f"Received: {not_finite} row(s) that would not be finite, "
            f"{where}, such as row {row}"
        )
