"""Reads and writes a few rows of a large variable, without copying it."""

from typing import Any

import keras

from keras_likelihood.backend.types import Tensor


def gather_rows(variable: Any, index: Tensor) -> Tensor:
    """Rows `variable[index]` as a tensor `(batch, ...)`, without checks."""
    if keras.backend.backend() == "jax":
        return variable.value.at[index].get(mode="promise_in_bounds")
    if keras.backend.backend() == "torch":
        return variable.value.detach().index_select(0, index)
    import tensorflow as tf

    return tf.raw_ops.ResourceGather(
        resource=_resource(variable), indices=index, dtype=variable.dtype
    )


def scatter_rows(variable: Any, index: Tensor, rows: Tensor) -> None:
    """`variable[index] = rows` in place; equal indices must have equal rows."""
    if keras.backend.backend() == "jax":
        rows_at = variable.value.at[index]
        variable.assign(rows_at.set(rows, mode="promise_in_bounds"))
    elif keras.backend.backend() == "torch":
        variable.value.detach().index_copy_(0, index.long(), rows.detach())
    else:
        import tensorflow as tf

        tf.raw_ops.ResourceScatterUpdate(
            resource=_resource(variable), indices=index, updates=rows
        )


def _resource(variable: Any) -> Any:
    import tensorflow as tf

    table = variable.value
    if tf.distribute.in_cross_replica_context():
        strategy = tf.distribute.get_strategy()
        table = strategy.experimental_local_results(table)[0]
    return table.handle
