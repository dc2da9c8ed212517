"""A prior that keeps rows with few examples near the others."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp


class RowPrior:
    """A normal prior of all rows around a learned centre.

        value[i] = constraint(constraint^-1(initial) + centre + d[i])
        penalty of row r = d[r]^2 / (2 scale^2)

    The penalty counts once for a row, so each of its `sizes[r]` examples adds
    that share of its gradient. A row with many examples hardly feels it. A row
    with few stays near the centre, which all examples move.

    Args:
        scale: standard deviation of the rows around the centre, `> 0`.
        sizes: number of training examples of each row, `(rows,)`, or one
            number for all rows.
        size: number of values in a row.
        rate: learning rate of the centre.
        name: of the variable.
    """

    def __init__(self, scale: float, sizes, size: int, rate: float, name: str):
        self._precision = float(scale) ** -2.0
        self._shares = 1.0 / np.maximum(np.float32(sizes), np.float32(1))
        self._rule = SparseRMSProp(rate)
        self.state = keras.Variable(
            np.zeros((self._rule.slots, size), "float32"),
            trainable=False,
            autocast=False,
            name=f"{name}_centre",
        )

    @property
    def centre(self):
        """`(size,)`, before the constraint."""
        return ops.convert_to_tensor(self.state)[0]

    def gradient(self, displacement, index):
        """The part of each example in the gradient of a mean loss.

        Args:
            displacement: `(batch, size)`.
            index: `(batch,)` row numbers.
        """
        batch = ops.cast(ops.shape(index)[0], "float32")
        return displacement * (self._share(index) * (self._precision / batch))

    def move_centre(self, gradient, known):
        """Moves the centre down the gradient of a batch.

        Args:
            gradient: of the loss by the displacements, `(batch, size)`.
            known: `(batch,)` booleans; an entry that is not known is left out.
        """
        gradient = ops.where(known[:, None], gradient, 0.0)
        state, _ = self._rule.step(
            ops.convert_to_tensor(self.state)[None],
            ops.sum(gradient, axis=0, keepdims=True),
            ops.zeros((1,), "int32"),
            ops.ones((1,), "bool"),
        )
        self.state.assign(state[0])

    def _share(self, index):
        shares = ops.convert_to_tensor(self._shares)
        if not self._shares.ndim:
            return shares
        return ops.take(shares, index, axis=0)[:, None]


def checked_sizes(scale, sizes, rows: int):
    """`sizes` as an array of float32, or an error that says what is wrong.

    Args:
        scale: `prior_scale` of a `DataParameter`, or `None` for no prior.
        sizes: `row_sizes` of it.
        rows: number of rows of its table.
    """
    if scale is None:
        if sizes is not None:
            raise ValueError(
                "`row_sizes` belongs to `prior_scale`. "
                "Received: `row_sizes` alone"
            )
        return None
    if not 0 < scale < float("inf"):
        raise ValueError(
            "`prior_scale` must be a finite number > 0 or None. "
            f"Received: {scale}"
        )
    if sizes is None:
        raise ValueError(
            "`prior_scale` needs `row_sizes`, the number of training examples "
            "of each row: 1 if every example has its own row, else "
            f"`np.bincount(index, minlength={rows})`. Received: None"
        )
    found = np.asarray(sizes, "float32")
    if found.shape not in ((), (rows,)) or not np.all(found >= 0):
        raise ValueError(
            f"`row_sizes` must be a number or {rows} numbers, all >= 0. "
            f"Received: shape {found.shape}, smallest "
            f"{found.min(initial=np.inf)}"
        )
    return found
