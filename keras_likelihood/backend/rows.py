"""Rows of a large variable, at the cost of the rows alone.

Reading a variable as a tensor moves all of it. These functions touch only
the rows named by an index: through the resource on TensorFlow, in the
donated buffer of the compiled step on JAX, in place on PyTorch.
"""

import keras


def gather_rows(variable, index):
    """Rows `variable[index]` as a tensor `(batch, ...)`.

    Args:
        variable: a `keras.Variable` `(rows, ...)`.
        index: integer tensor `(batch,)` of row numbers in range.
    """
    return _OF[keras.backend.backend()].gather(variable, index)


def scatter_rows(variable, index, rows):
    """Writes `variable[index] = rows`, in place.

    Args:
        variable: a `keras.Variable` `(rows, ...)`.
        index: integer tensor `(batch,)`; repeated entries must come with
            equal rows.
        rows: tensor `(batch, ...)`.
    """
    _OF[keras.backend.backend()].scatter(variable, index, rows)


def gradient(function, inputs: list) -> list:
    """Derivatives of `function(*inputs)`, a scalar, by each of the inputs.

    What else `function` depends on is held constant.
    """
    return _OF[keras.backend.backend()].gradient(function, inputs)


def replica_count() -> int:
    """Number of model replicas that train in step, each on its own batch."""
    return _OF[keras.backend.backend()].replica_count()


def gather_replicas(x):
    """Joins the batches `(batch, ...)` of all replicas, in their order."""
    return _OF[keras.backend.backend()].gather_replicas(x)


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
    def gradient(function, inputs):
        import tensorflow as tf

        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(inputs)
            output = function(*inputs)
        return tape.gradient(
            output,
            inputs,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )

    @staticmethod
    def replica_count():
        import tensorflow as tf

        return tf.distribute.get_strategy().num_replicas_in_sync

    @staticmethod
    def gather_replicas(x):
        import tensorflow as tf

        return tf.distribute.get_replica_context().all_gather(x, axis=0)


class _Jax:
    @staticmethod
    def gather(variable, index):
        return variable.value[index]

    @staticmethod
    def scatter(variable, index, rows):
        variable.assign(variable.value.at[index].set(rows))

    @staticmethod
    def gradient(function, inputs):
        import jax

        by_inputs = jax.grad(function, argnums=tuple(range(len(inputs))))
        # The step is itself differentiated: without the stop its tangents
        # would follow the rows into the table.
        return [jax.lax.stop_gradient(g) for g in by_inputs(*inputs)]

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
    def gradient(function, inputs):
        import torch

        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in inputs]
            return list(torch.autograd.grad(function(*leaves), leaves))

    @staticmethod
    def replica_count():
        return 1

    @staticmethod
    def gather_replicas(x):
        return x


_OF = {"tensorflow": _TensorFlow, "jax": _Jax, "torch": _Torch}
