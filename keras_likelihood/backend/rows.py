"""Reads and writes a few rows of a large variable.

Reading a variable as a tensor copies all of it. These functions only read and
write the indexed rows: through the resource on TensorFlow, in the donated
buffer of the compiled step on JAX and in place on PyTorch.

On JAX the rows may be sharded over several devices. Each device reads and
writes its own rows of the batch, so only these are transferred. The XLA
partitioner might copy the whole table instead.
"""

import types
from collections.abc import Callable
from typing import Any

import keras

from keras_likelihood.backend.processes import replica_count
from keras_likelihood.backend.types import Array, Tensor


def row_layout(name: str, axis: str | None) -> Any:
    """The `TensorLayout` of a table's rows, or `None` for full copies.

    Without an `axis` of the device mesh, the layout for `name` in the
    `LayoutMap` is used.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        if axis is not None and replica_count() > 1:
            raise ValueError(
                "`shard` must be None with `tf.distribute`, where every "
                "replica has a copy of the table. Sharding needs "
                "`keras.distribution` on JAX. "
                f"Received: shard={axis!r}"
            )
        return None
    mesh = distribution.device_mesh
    if axis is None:
        table = types.SimpleNamespace(path=name, shape=(1, 1))
        layout = distribution.get_variable_layout(table)
        return layout if layout.axes[0] is not None else None
    if axis not in mesh.axis_names:
        raise ValueError(
            "`shard` must be an axis of the device mesh, "
            f"{list(mesh.axis_names)}. Received: {axis!r}"
        )
    return keras.distribution.TensorLayout((axis, None), mesh)


def parts_of(layout: Any) -> tuple[int, int]:
    """Numbers of shards and processes of a layout, `(parts, processes)`."""
    if layout is None:
        return 1, 1
    parts = layout.backend_layout.mesh.shape[layout.axes[0]]
    return parts, min(parts, keras.distribution.distribution().num_processes)


def whole_table(variable: Any) -> Array:
    """The values of a variable on the host.

    If the rows are spread over several processes, each must call this.
    """
    value = variable.value
    is_here = getattr(value, "is_fully_addressable", True)
    if is_here or value.is_fully_replicated:
        values: Array = keras.ops.convert_to_numpy(variable)
    else:
        from jax.experimental import multihost_utils

        values = multihost_utils.process_allgather(value, tiled=True)
    return values


def gather_rows(variable: Any, index: Tensor, layout: Any = None) -> Tensor:
    """Rows `variable[index]` as a tensor `(batch, ...)`, without checks."""
    if layout is not None:
        import jax

        def read(own_rows: Any) -> Tensor:
            own = own_rows.get(mode="fill", fill_value=0)
            return jax.lax.psum(own, layout.axes[0])

        return _on_each_device(read, layout, variable, index)
    if keras.backend.backend() == "jax":
        return variable.value.at[index].get(mode="promise_in_bounds")
    if keras.backend.backend() == "torch":
        return variable.value.detach().index_select(0, index)
    import tensorflow as tf

    return tf.raw_ops.ResourceGather(
        resource=_resource(variable), indices=index, dtype=variable.dtype
    )


def scatter_rows(
    variable: Any, index: Tensor, rows: Tensor, layout: Any = None
) -> None:
    """`variable[index] = rows` in place; equal indices must have equal rows."""
    if layout is not None:

        def write(own_rows: Any, rows: Tensor) -> Tensor:
            return own_rows.set(rows, mode="drop")

        variable.assign(_on_each_device(write, layout, variable, index, rows))
    elif keras.backend.backend() == "jax":
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


def _on_each_device(
    function: Callable[..., Tensor],
    layout: Any,
    variable: Any,
    index: Tensor,
    *rows: Tensor,
) -> Tensor:
    """Calls a function of the indexed rows on each device.

    The function returns rows `(batch, ...)`, or the new shard of the device if
    `rows` are given.
    """
    import jax
    from jax.sharding import PartitionSpec

    def run(share: Any, index: Tensor, *rows: Tensor) -> Tensor:
        size = share.shape[0]
        place = index - jax.lax.axis_index(layout.axes[0]) * size
        is_here = (place >= 0) & (place < size)
        # Rows of other devices get an index beyond the end.
        return function(share.at[jax.numpy.where(is_here, place, size)], *rows)

    table = layout.backend_layout.spec
    batch = PartitionSpec(None, *table[1:])
    mapped = jax.shard_map(
        run,
        mesh=layout.backend_layout.mesh,
        in_specs=(table, PartitionSpec(), *(batch for _ in rows)),
        out_specs=table if rows else batch,
    )
    # Compiles even outside a compiled step, one batch at a time.
    return jax.jit(mapped)(variable.value, index, *rows)
