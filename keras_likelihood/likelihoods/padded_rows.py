"""Rows that are padded, so that backends compile a method for few shapes."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import is_known

OF_TARGETS = ("cdf", "cdf_below", "log_cdf", "log_survival")
_ON_PADDED_ROWS = (
    *(*OF_TARGETS, "quantile", "log_tail", "tail_quantile", "interval"),
    *("mean", "variance", "information"),
)
FEWEST_ROWS = 256
"""Fewer rows are padded to this number."""


def padded_rows(name, likelihood, arguments):
    """How to pad the rows for a method, or `None` if it runs on the rows."""
    shape = tuple(likelihood.prediction.shape)
    if (
        name not in _ON_PADDED_ROWS
        or keras.backend.backend() == "torch"
        or likelihood.event_rank
        or 0 in (shape or (0,))
        or not all(map(is_known, likelihood.values().values()))
    ):
        return None
    for x in arguments:
        own = np.shape(x)[-len(shape) :]
        fits = own == shape or (
            name not in OF_TARGETS
            and all(
                a in (1, b)
                for a, b in zip(own[::-1], shape[::-1], strict=False)
            )
        )
        # Others are refused by the method itself.
        if len(own) and not (is_known(x) and fits):
            return None
    rows = PaddedRows(len(shape), shape[0])
    # One row alone may have vectors of parameters in place of the rows.
    counts = {rows.count(x) for x in likelihood.values().values()}
    if rows.padded == rows.rows or counts - {1, rows.rows, None}:
        return None
    return rows


class PaddedRows:
    """Copies of the last row that make the number of rows one of a few.

    JAX and TensorFlow compile a method for each number of rows, which may take
    seconds. So a call outside of a compiled step pads the rows to 256, or by
    at most a quarter, and the results are cut.
    """

    def __init__(self, rank, rows):
        self.rank, self.rows = rank, rows
        step = max(FEWEST_ROWS, 2 ** (rows.bit_length() - 3))
        self.padded = -(-rows // step) * step

    def pad(self, x):
        """`x`, or a padded copy if it has rows, as a tensor."""
        if self.count(x) != self.rows:
            return x
        index = np.minimum(np.arange(self.padded), self.rows - 1)
        x = _without_compiling(x)
        take = np.take if isinstance(x, np.ndarray) else ops.take
        return ops.convert_to_tensor(
            take(x, index, axis=len(x.shape) - self.rank)
        )

    def cut(self, x):
        """The rows of a result that are not padding."""
        if self.count(x) != self.padded:
            return x
        in_front = (slice(None),) * (len(x.shape) - self.rank)
        kept = _without_compiling(x)[(*in_front, slice(self.rows))]
        return ops.convert_to_tensor(kept)

    def count(self, x):
        """The number of rows of `x`, or `None` if it has no such axis."""
        shape = np.shape(x)
        return shape[-self.rank] if len(shape) >= self.rank else None


def _without_compiling(x):
    """`x` such that taking rows compiles nothing: JAX compiles every shape."""
    if keras.backend.backend() == "jax" or not ops.is_tensor(x):
        return np.asarray(x)
    return x
