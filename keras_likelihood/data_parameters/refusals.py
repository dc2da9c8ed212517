"""What the steps of a training refused, counted inside of them."""

import keras
import numpy as np
from keras import ops

_STEPS, _OUTSIDE, _NOT_FINITE, _FIRST_STEP, _FIRST_ROW = range(5)


class _Counts(keras.Variable):
    """Counters that start anew from what 0.1.0 saved, which was one number."""

    def assign(self, value):
        if np.ndim(value) == 0:
            value = np.zeros(self.shape, "int32")
        return super().assign(value)


class Refusals:
    """Counts of entries that a data parameter could not use.

    A compiled step cannot raise: it counts, and `raise_any` reports between
    two steps.

    Args:
        name: of the variable that counts.
    """

    def __init__(self, name: str):
        self.counts = _Counts(
            np.zeros(5, "int32"),
            dtype="int32",
            trainable=False,
            # Replicas count the joint batch, each the same.
            aggregation="only_first_replica",
            name=name,
        )

    def count(self, outside, not_finite, index):
        """Adds the entries `(batch,)` of one step.

        Args:
            outside: booleans: whose index has no row.
            not_finite: booleans: whose row would not be finite.
            index: row numbers, integers.
        """
        before = ops.convert_to_tensor(self.counts)
        number = before[_STEPS] + 1
        marks = ops.cast(ops.stack([outside, not_finite]), "int32")
        added = ops.sum(marks, axis=1)
        any_before = before[_OUTSIDE] + before[_NOT_FINITE] > 0
        any_now = added[0] + added[1] > 0
        first = ops.logical_and(any_now, ops.logical_not(any_before))
        row = ops.max(ops.where(not_finite, ops.cast(index, "int32"), -1))
        self.counts.assign(
            ops.stack(
                [
                    number,
                    before[_OUTSIDE] + added[0],
                    before[_NOT_FINITE] + added[1],
                    ops.where(first, number, before[_FIRST_STEP]),
                    ops.where(first, row, before[_FIRST_ROW]),
                ]
            )
        )

    def reset(self):
        """Forgets what was counted."""
        self.counts.assign(np.zeros(5, "int32"))

    def raise_any(self, name: str, num_rows: int):
        """Raises if something was refused since `reset`, and resets.

        Args:
            name: of the parameter.
            num_rows: of its table.
        """
        counts = ops.convert_to_numpy(self.counts)
        if not counts[_OUTSIDE] and not counts[_NOT_FINITE]:
            return
        self.reset()
        where = f"first in batch {counts[_FIRST_STEP]} since training began"
        if counts[_OUTSIDE]:
            raise ValueError(
                f"The data {name} has rows 0 to {num_rows - 1}; "
                "set `num_examples` to the size of the whole training set, or "
                "number the examples from 0. No row was moved by the others. "
                f"Received: {counts[_OUTSIDE]} index(es) outside, {where}"
            )
        raise ValueError(
            f"The data {name} keeps only finite rows. Look for NaN and "
            "infinity in the inputs and targets, or lower the learning rate "
            "of the model; the rows are as they were before. "
            f"Received: {counts[_NOT_FINITE]} row(s) that would not be finite, "
            f"{where}, such as row {counts[_FIRST_ROW]}"
        )
