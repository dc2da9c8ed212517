"""Rows of a table that lie on several devices of JAX, each with a share.

A step sends the numbers of its rows to every device. Each device reads and
writes its own rows among them, so that only the rows of the batch are sent.
The partitioner of XLA could find this too, but it might copy the whole table
instead.
"""

import types

import keras
import numpy as np


def row_layout(name: str, axis: str | None):
    """Where the rows of a table go under the current distribution.

    Args:
        name: the name of the table's variable, for the `LayoutMap` of a
            `ModelParallel`.
        axis: the axis of the device mesh. With `None` the distribution
            decides.

    Returns:
        A `TensorLayout` whose first axis is of the mesh, or `None` for rows
        that every device has.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        _refuse_replicas(axis)
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


def _refuse_replicas(axis):
    if axis is None or keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        raise ValueError(
            "`shard` must be None with `tf.distribute`, where every replica "
            "has a copy of the table. It is for `keras.distribution` on JAX. "
            f"Received: shard={axis!r}"
        )


def parts_of(layout) -> tuple:
    """`(parts, processes)` a table of this layout is laid out over."""
    if layout is None:
        return 1, 1
    mesh = layout.device_mesh
    parts = mesh.shape[list(mesh.axis_names).index(layout.axes[0])]
    processes = keras.distribution.distribution().num_processes
    return int(parts), min(int(parts), processes)


def gather_sharded(variable, index, layout):
    """Rows `(batch, ...)`, which every device gets."""
    import jax

    def read(part, index):
        local, is_here = _place(part, index, layout.axes[0])
        rows = part.at[local].get(mode="clip")
        here = jax.numpy.where(is_here[:, None], rows, 0)
        return jax.lax.psum(here, layout.axes[0])

    spec = layout.backend_layout.spec
    none = jax.sharding.PartitionSpec()
    out = jax.sharding.PartitionSpec(None, *spec[1:])
    return _on_each(read, layout, (spec, none), out)(variable.value, index)


def scatter_sharded(variable, index, rows, layout):
    """Lets every device write the rows that it holds."""
    import jax

    def write(part, index, rows):
        local, is_here = _place(part, index, layout.axes[0])
        nowhere = part.shape[0]
        local = jax.numpy.where(is_here, local, nowhere)
        return part.at[local].set(rows, mode="drop")

    spec = layout.backend_layout.spec
    none = jax.sharding.PartitionSpec()
    by_batch = jax.sharding.PartitionSpec(None, *spec[1:])
    write = _on_each(write, layout, (spec, none, by_batch), spec)
    variable.assign(write(variable.value, index, rows))


def whole_table(variable) -> np.ndarray:
    """The values of a variable on the host.

    If the rows lie in several processes, each process must call this.
    """
    value = variable.value
    is_here = getattr(value, "is_fully_addressable", True)
    if is_here or value.is_fully_replicated:
        return keras.ops.convert_to_numpy(variable)
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(value, tiled=True)


def _place(part, index, axis):
    """The places of rows in this device's part, and which rows are in it."""
    import jax

    local = index - jax.lax.axis_index(axis) * part.shape[0]
    return local, (local >= 0) & (local < part.shape[0])


def _on_each(function, layout, inputs, output):
    import jax

    mesh = layout.backend_layout.mesh
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=inputs, out_specs=output
    )
    # Outside of a compiled step one batch of rows is read at a time.
    return jax.jit(mapped)
