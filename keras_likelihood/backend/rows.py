"""Reads and writes a few rows of a large variable, and differentiates by them.

Reading a variable as a tensor copies all of it. These functions read and write
only the rows of an index: through the resource on TensorFlow, in the donated
buffer of the compiled step on JAX and in place on PyTorch.
"""

import keras

from keras_likelihood.backend.sharding import gather_sharded, scatter_sharded


def gather_rows(variable, index, layout=None):
    """Rows `variable[index]` as a tensor `(batch, ...)`, all in range."""
    if layout is not None:
        return gather_sharded(variable, index, layout)
    if keras.backend.backend() == "jax":
        return variable.value.at[index].get(mode="promise_in_bounds")
    if keras.backend.backend() == "torch":
        return variable.value.detach().index_select(0, index)
    import tensorflow as tf

    return tf.raw_ops.ResourceGather(
        resource=_resource(variable), indices=index, dtype=variable.dtype
    )


def scatter_rows(variable, index, rows, layout=None):
    """Writes `variable[index] = rows`, in place; equal rows for equal index."""
    if layout is not None:
        scatter_sharded(variable, index, rows, layout)
    elif keras.backend.backend() == "jax":
        rows_at = variable.value.at[index]
        variable.assign(rows_at.set(rows, mode="promise_in_bounds"))
    elif keras.backend.backend() == "torch":
        table = variable.value.detach()
        table.index_copy_(0, index.long(), rows.detach())
    else:
        import tensorflow as tf

        tf.raw_ops.ResourceScatterUpdate(
            resource=_resource(variable), indices=index, updates=rows
        )


def _resource(variable):
    import tensorflow as tf

    table = variable.value
    if tf.distribute.in_cross_replica_context():
        strategy = tf.distribute.get_strategy()
        table = strategy.experimental_local_results(table)[0]
    return table.handle


def value_and_gradient(function, inputs: list) -> tuple:
    """A function of tensors, and the derivatives of its sum by the inputs.

    The value can still be differentiated by everything else that `function`
    depends on. The derivatives, a list like `inputs`, are constants.
    """
    return value_gradient_and_others(lambda *x: (function(*x), {}), inputs)[:2]


def value_gradient_and_others(function, inputs: list) -> tuple:
    """As `value_and_gradient`, for a function that returns a dict as well."""
    if not inputs:
        value, others = function()
        return value, [], others
    differentiate = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    return differentiate[keras.backend.backend()](function, inputs)


def _tensorflow(function, inputs):
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        value, others = function(*inputs)
    by_inputs = tape.gradient(
        value, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # The gradient of an embedding has only the rows that were read.
    return value, [tf.convert_to_tensor(g) for g in by_inputs], others


def _jax(function, inputs):
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


def _torch(function, inputs):
    import torch

    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        value, others = function(*leaves)
        # The graph is needed again when the model is trained.
        by_inputs = torch.autograd.grad(
            value.sum(), leaves, retain_graph=True, materialize_grads=True
        )
    return value, list(by_inputs), others
