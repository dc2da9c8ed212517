"""Gradients by the weights of a model, outside of its training step."""

import keras


def fold_gradients(function, weights: list, state: list, fold):
    """Compiles one step of a sum over gradients of a scalar function.

    Args:
        function: maps a nest of tensors to one scalar tensor; it reads
            variables as Keras layers do.
        weights: the `keras.Variable`s to differentiate by.
        state: all other variables that `function` reads.
        fold: maps `(total, gradients)` to the next total, a nest of tensors;
            `gradients` is a list like `weights`.

    Returns:
        A function of `(total, inputs)` that returns the next total.
    """
    return _OF[keras.backend.backend()](function, weights, state, fold)


def sync_variables(model):
    """Makes the variables of a model current in the middle of `fit`.

    On JAX a training step carries them beside the model.
    """
    if hasattr(model, "jax_state_sync"):
        model.jax_state_sync()


def _tensorflow(function, weights, state, fold):
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def step(total, inputs):
        with tf.GradientTape() as tape:
            value = function(inputs)
        gradients = tape.gradient(
            value,
            [w.value for w in weights],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        # The gradient of an embedding comes as the rows that were read.
        return fold(total, [tf.convert_to_tensor(g) for g in gradients])

    return step


def _jax(function, weights, state, fold):
    import jax

    def value(current, others, inputs):
        mapping = [
            *zip(weights, current, strict=True),
            *zip(state, others, strict=True),
        ]
        with keras.StatelessScope(state_mapping=mapping):
            return function(inputs)

    @jax.jit
    def compiled(total, current, others, inputs):
        return fold(total, jax.grad(value)(current, others, inputs))

    def step(total, inputs):
        current = [w.value for w in weights]
        return compiled(total, current, [v.value for v in state], inputs)

    return step


def _torch(function, weights, state, fold):
    import torch

    def step(total, inputs):
        values = [w.value for w in weights]
        with torch.enable_grad():
            found = torch.autograd.grad(
                function(inputs), values, allow_unused=True
            )
        gradients = [
            torch.zeros_like(v) if g is None else g
            for g, v in zip(found, values, strict=True)
        ]
        with torch.no_grad():
            return fold(total, gradients)

    return step


_OF = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
