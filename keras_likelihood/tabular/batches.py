"""Runs functions and models on the rows of a table in large batches."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.kept_values import keeping_values
from keras_likelihood.backend.types import Array

BATCH = 4096
"""Number of rows of a batch."""


def in_batches(
    function: Callable[..., Any], *arrays: Array, size: int | None = None
) -> Any:
    """The results for the rows of arrays, computed in batches of one shape.

    The `size` of a batch is `BATCH` or the number of rows, if it is smaller.
    `function` takes NumPy arrays: on JAX each conversion would be a program.
    """
    rows = len(arrays[0])
    size = size or min(rows, BATCH)
    parts = []
    for start in range(0, rows, size):
        every = np.arange(start, start + size).clip(max=rows - 1)
        found = function(*(a[every] for a in arrays))
        parts.append(keras.tree.map_structure(ops.convert_to_numpy, found))
    return keras.tree.map_structure(
        lambda *values: np.concatenate(values)[:rows], *parts
    )


def predict_rows(model: keras.Model, x: Array) -> Any:
    """`predict` in large batches."""
    with keeping_values(model):
        return model.predict(x, batch_size=BATCH, verbose=0)
