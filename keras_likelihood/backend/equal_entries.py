"""Sums over the entries of a batch that name the same row."""

import keras
from keras import ops

from keras_likelihood.backend.rows import sum_by_place


def sums_of_equal(values: list, index) -> list:
    """For each entry, the sum of a value over the entries of equal index.

    Args:
        values: list of tensors `(batch, ...)`.
        index: integer tensor `(batch,)`.

    Returns:
        List of tensors like `values`, equal for equal indices.
    """
    if keras.backend.backend() == "jax":
        if _can_compare_all(values, index):
            return _compare_all(values, index)
        place = _jax_places(index)
    else:
        order = ops.sort(index)
        place = ops.cast(ops.searchsorted(order, index), "int32")
    return [ops.take(sum_by_place(x, place), place, axis=0) for x in values]


def _can_compare_all(values, index):
    """Whether each entry may look at all others, which takes one kernel.

    The pause of a GPU between two small kernels is as long as the comparison
    of a million pairs.
    """
    import jax

    count = index.shape[0]
    size = sum(x.size // max(count, 1) for x in values)
    most = 2**14 if jax.default_backend() == "cpu" else 2**21
    return count * count * size <= most


def _compare_all(values, index):
    # All values side by side: one sum, and one kernel, for all of them.
    count = index.shape[0]
    columns = [x.reshape(count, -1) for x in values]
    joint = ops.concatenate(columns, axis=1)
    equal = index[:, None, None] == index[None, :, None]
    total = ops.sum(ops.where(equal, joint[None], 0), axis=1)
    results, start = [], 0
    for x, column in zip(values, columns, strict=True):
        end = start + column.shape[1]
        results.append(total[:, start:end].reshape(x.shape))
        start = end
    return results


def _jax_places(index):
    """Integers `(batch,)` in [0, batch), the same for equal entries.

    A search in the sorted entries would be a loop. A GPU waits for each round
    of it, which took half a millisecond in each step.
    """
    import jax.numpy as jnp

    order = jnp.argsort(index)
    ordered = index[order]
    place = jnp.pad(jnp.cumsum(ordered[1:] != ordered[:-1]), (1, 0))
    return jnp.zeros_like(place).at[order].set(place, unique_indices=True)
