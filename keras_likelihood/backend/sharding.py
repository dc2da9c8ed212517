"""Rows of a table that lie on several devices of JAX, each with a share.

A step sends the numbers of its rows to every device. Each device reads and
writes its own rows among them, so that only the rows of the batch are sent.
The partitioner of XLA could find this too, but it might copy the whole table
instead.
"""

import types

import keras
import numpy as np

from keras_likelihood.backend.processes import replicas_that_add


def row_layout(name: str, axis: str | None):
    """The `TensorLayout` of a table's rows, `None` if every device has all.

    Without an axis of the device mesh, a `LayoutMap` decides by the name.
    """
    distribution = keras.distribution.distribution()
    if distribution is None:
        if axis is not None and replicas_that_add() > 1:
            raise ValueError(
                "`shard` must be None with `tf.distribute`, where every "
                "replica has a copy of the table. It is for "
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


def parts_of(layout) -> tuple:
    """`(parts, processes)` a table of this layout is laid out over."""
    if layout is None:
        return 1, 1
    mesh = layout.device_mesh
    parts = int(mesh.shape[list(mesh.axis_names).index(layout.axes[0])])
    return parts, min(parts, keras.distribution.distribution().num_processes)


def gather_sharded(variable, index, layout):
    """Rows `(batch, ...)`, which every device gets."""
    import jax

    def read(part, index):
        local, is_here = _place(part, index, layout.axes[0])
        rows = part.at[local].get(mode="clip")
        here = jax.numpy.where(is_here[:, None], rows, 0)
        return jax.lax.psum(here, layout.axes[0])

    table, whole, batch = _specs(layout)
    return _on_each(read, layout, (table, whole), batch)(variable.value, index)


def scatter_sharded(variable, index, rows, layout):
    """Lets every device write the rows that it holds."""
    import jax

    def write(part, index, rows):
        local, is_here = _place(part, index, layout.axes[0])
        local = jax.numpy.where(is_here, local, part.shape[0])
        return part.at[local].set(rows, mode="drop")

    specs = _specs(layout)
    write = _on_each(write, layout, specs, specs[0])
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


def _specs(layout):
    """How a table, an index and the rows of a batch are laid out."""
    from jax.sharding import PartitionSpec

    table = layout.backend_layout.spec
    return table, PartitionSpec(), PartitionSpec(None, *table[1:])


def _on_each(function, layout, inputs, output):
    import jax

    mesh = layout.backend_layout.mesh
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=inputs, out_specs=output
    )
    # Outside of a compiled step one batch of rows is read at a time.
    return jax.jit(mapped)
