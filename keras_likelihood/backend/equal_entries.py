"""Sums over the entries of a batch that name the same row."""

import keras
from keras import ops


def sums_of_equal(values: list, index) -> list:
    """For each entry, the sum of a value over the entries of equal index.

    Args:
        values: list of tensors `(batch, ...)`.
        index: integer tensor `(batch,)`.

    Returns:
        List of tensors like `values`, equal for equal indices.
    """
    place = _first_place(ops.sort(index), index)
    return [ops.take(_sum(x, place), place, axis=0) for x in values]


def _first_place(ordered, index):
    """Where each entry is first among the ordered ones."""
    if keras.backend.backend() == "jax":
        import jax.numpy as jnp

        # The default method is a loop, and a GPU waits for each round of it.
        return jnp.searchsorted(ordered, index, method="sort")
    return ops.cast(ops.searchsorted(ordered, index), "int32")


def _sum(x, place):
    """Sums the rows of `x` with the same place, `(batch, ...)`."""
    if keras.backend.backend() == "torch":
        return x.new_zeros(x.shape).index_add_(0, place, x)
    return ops.segment_sum(x, place, num_segments=ops.shape(place)[0])
