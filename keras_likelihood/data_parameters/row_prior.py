"""A prior that shrinks rows with few examples towards the others."""

from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.registration import FromArguments, serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.data_parameters.sparse_rms_prop import SparseRMSProp
from keras_likelihood.likelihoods.checks import check_argument


@serializable
class RowPrior(FromArguments):
    """A normal prior of the rows of a `DataParameter` around their center.

        value[i] = constraint(constraint^-1(initial) + center + d[i])
        penalty of row r = d[r]^2 / (2 scale^2)

    Use it if many examples share a row, such as all examples of one annotator.
    The penalty is applied once per row, so a row with few examples stays near
    the center, which is learned from all examples.

    ```python
    prior = kl.data_parameters.RowPrior(0.5, row_sizes=np.bincount(annotator))
    scale = kl.DataParameter(num_annotators, prior=prior)
    ```

    Args:
        scale: standard deviation of the rows around the center, before the
            constraint, `> 0`.
        row_sizes: number of training examples of each row: 1 if every
            example has its own row, or an array such as
            `np.bincount(annotator)`.
    """

    def __init__(self, scale: float, *, row_sizes: Any) -> None:
        is_finite = 0 < scale < float("inf")
        check_argument("scale", scale, is_finite, "a finite number > 0")
        self.scale = float(scale)
        self.row_sizes = np.asarray(row_sizes, "float32")
        if self.row_sizes.ndim > 1 or not np.all(self.row_sizes >= 0):
            raise ValueError(
                "`row_sizes` must be a number or one number per row, all "
                f">= 0. Received: shape {self.row_sizes.shape}, smallest "
                f"{self.row_sizes.min(initial=np.inf)}"
            )

    def check(self, rows: int) -> None:
        """Raises an error if `row_sizes` has another number of rows."""
        if self.row_sizes.shape not in ((), (rows,)):
            raise ValueError(
                f"`row_sizes` must be a number or {rows} numbers, one per "
                f"row, such as `np.bincount(index, minlength={rows})`. If the "
                "table grows, pass the new `prior` to `append`. "
                f"Received: shape {self.row_sizes.shape}"
            )

    def gradient(self, displacement: Tensor, index: Tensor) -> Tensor:
        """Gradient of the penalty per example, `(batch, size)`."""
        batch = ops.cast(ops.shape(index)[0], "float32")
        share = 1.0 / np.maximum(self.row_sizes, np.float32(1))
        if share.ndim:
            share = ops.take(share, index, axis=0)[:, None]
        return displacement * (share * (self.scale**-2.0 / batch))

    def get_config(self) -> dict[str, Any]:
        return {"scale": self.scale, "row_sizes": self.row_sizes.tolist()}


def move_center(
    center: Any, rate: float, gradient: Tensor, known: Tensor
) -> None:
    """Updates the center `(columns, size)` of the rows."""
    gradient = ops.where(known[:, None], gradient, 0.0)
    state, _ = SparseRMSProp(rate).step(
        ops.convert_to_tensor(center)[None],
        ops.sum(gradient, axis=0, keepdims=True),
        ops.zeros((1,), "int32"),
        ops.ones((1,), "bool"),
    )
    center.assign(state[0])
