"""Reads and writes a few rows of a large variable.

Reading a variable as a tensor copies all of it. These functions read and write
only the rows of an index: through the resource on TensorFlow, in the donated
buffer of the compiled step on JAX and in place on PyTorch.
"""

from typing import Any

import keras

from keras_likelihood.backend import processes
from keras_likelihood.backend.sharding import gather_sharded, scatter_sharded


def gather_rows(variable, index, layout=None):
    """Rows `variable[index]` as a tensor `(batch, ...)`.

    Args:
        variable: a `keras.Variable` `(rows, ...)`.
        index: integer tensor `(batch,)` of row numbers in range.
        layout: `TensorLayout` of rows that lie on several devices, or
            `None`.
    """
    if layout is not None:
        return gather_sharded(variable, index, layout)
    return _BY_BACKEND[keras.backend.backend()].gather(variable, index)


def scatter_rows(variable, index, rows, layout=None):
    """Writes `variable[index] = rows`, in place.

    Args:
        variable: a `keras.Variable` `(rows, ...)`.
        index: integer tensor `(batch,)`; repeated entries must come with
            equal rows.
        rows: tensor `(batch, ...)`.
        layout: as in `gather_rows`.
    """
    if layout is not None:
        scatter_sharded(variable, index, rows, layout)
        return
    _BY_BACKEND[keras.backend.backend()].scatter(variable, index, rows)


def value_and_gradient(function, inputs: list) -> tuple:
    """Evaluates a function and the derivatives of its sum by the inputs.

    The value can still be differentiated by everything else that `function`
    depends on. The derivatives are constants.

    Args:
        function: maps the inputs to one tensor.
        inputs: list of tensors.

    Returns:
        `(value, derivatives)`, the second a list like `inputs`.
    """

    def alone(*inputs):
        return function(*inputs), {}

    value, derivatives, _ = value_gradient_and_others(alone, inputs)
    return value, derivatives


def value_gradient_and_others(function, inputs: list) -> tuple:
    """As `value_and_gradient`, for a function that returns more.

    Args:
        function: maps the inputs to a tensor and a dict of other tensors.
        inputs: list of tensors, which may be empty.

    Returns:
        `(value, derivatives, others)`.
    """
    if not inputs:
        value, others = function()
        return value, [], others
    backend = _BY_BACKEND[keras.backend.backend()]
    return backend.value_and_gradient(function, inputs)


def sum_by_place(x, place):
    """Sums the rows of `x` `(batch, ...)` that have the same place.

    Args:
        x: tensor `(batch, ...)`.
        place: integer tensor `(batch,)` with entries in [0, batch).

    Returns:
        `(batch, ...)`: the total of each place, zero where there is none.
    """
    return _BY_BACKEND[keras.backend.backend()].sum_by_place(x, place)


def replica_count() -> int:
    """Number of model replicas that train together, each on its own batch."""
    return _BY_BACKEND[keras.backend.backend()].replica_count()


def gather_replicas(x):
    """Joins the batches `(batch, ...)` of all replicas, in their order."""
    return _BY_BACKEND[keras.backend.backend()].gather_replicas(x)


def share_of_loss() -> float:
    """Weight of the loss of one replica in the loss of the joint batch."""
    return _BY_BACKEND[keras.backend.backend()].share_of_loss()


class _TensorFlow:
    @staticmethod
    def resource(variable):
        import tensorflow as tf

        table = variable.value
        if tf.distribute.in_cross_replica_context():
            strategy = tf.distribute.get_strategy()
            table = strategy.experimental_local_results(table)[0]
        return table.handle

    @staticmethod
    def gather(variable, index):
        import tensorflow as tf

        return tf.raw_ops.ResourceGather(
            resource=_TensorFlow.resource(variable),
            indices=index,
            dtype=variable.dtype,
        )

    @staticmethod
    def scatter(variable, index, rows):
        import tensorflow as tf

        tf.raw_ops.ResourceScatterUpdate(
            resource=_TensorFlow.resource(variable),
            indices=index,
            updates=rows,
        )

    @staticmethod
    def value_and_gradient(function, inputs):
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs)
            value, others = function(*inputs)
        by_inputs = tape.gradient(
            value,
            inputs,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return value, by_inputs, others

    @staticmethod
    def sum_by_place(x, place):
        import tensorflow as tf

        return tf.math.unsorted_segment_sum(x, place, tf.shape(place)[0])

    @staticmethod
    def replica_count():
        import tensorflow as tf

        return tf.distribute.get_strategy().num_replicas_in_sync

    @staticmethod
    def gather_replicas(x):
        import tensorflow as tf

        return tf.distribute.get_replica_context().all_gather(x, axis=0)

    @staticmethod
    def share_of_loss():
        # Keras has divided the loss of a replica by their number already.
        return 1


class _Jax:
    @staticmethod
    def gather(variable, index):
        return variable.value.at[index].get(mode="promise_in_bounds")

    @staticmethod
    def scatter(variable, index, rows):
        rows_at = variable.value.at[index]
        variable.assign(rows_at.set(rows, mode="promise_in_bounds"))

    @staticmethod
    def value_and_gradient(function, inputs):
        import jax

        def total(*inputs):
            value, others = function(*inputs)
            return value.sum(), (value, others)

        by_inputs, (value, others) = jax.grad(
            total, argnums=tuple(range(len(inputs))), has_aux=True
        )(*inputs)
        # The step itself is differentiated. Without `stop_gradient` the
        # derivatives would reach the table.
        return value, [jax.lax.stop_gradient(g) for g in by_inputs], others

    @staticmethod
    def sum_by_place(x, place):
        import jax

        return jax.ops.segment_sum(x, place, num_segments=x.shape[0])

    @staticmethod
    def replica_count():
        return 1

    @staticmethod
    def gather_replicas(x):
        return x


class _Torch:
    @staticmethod
    def gather(variable, index):
        return variable.value.detach().index_select(0, index)

    @staticmethod
    def scatter(variable, index, rows):
        table = variable.value.detach()
        table.index_copy_(0, index.long(), rows.detach())

    @staticmethod
    def value_and_gradient(function, inputs):
        import torch

        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in inputs]
            value, others = function(*leaves)
            # The graph is needed again when the model is trained.
            by_inputs = torch.autograd.grad(
                value.sum(), leaves, retain_graph=True
            )
        return value, list(by_inputs), others

    @staticmethod
    def sum_by_place(x, place):
        return x.new_zeros(x.shape).index_add_(0, place, x)

    @staticmethod
    def replica_count():
        return processes.joint_count()

    @staticmethod
    def gather_replicas(x):
        return processes.gather(x)

    @staticmethod
    def share_of_loss():
        return 1 / processes.joint_count()


_BY_BACKEND: dict[str, Any] = {
    "tensorflow": _TensorFlow,
    "jax": _Jax,
    "torch": _Torch,
}
