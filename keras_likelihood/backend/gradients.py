"""Gradients of functions on each backend."""

from collections.abc import Callable
from typing import Any

import keras


def value_and_gradient(
    function: Callable[..., Any], inputs: list[Any]
) -> tuple[Any, ...]:
    """The value of a function, and the gradient of its sum for each input.

    The value is still differentiable with respect to everything else that
    `function` depends on. The gradients, a list like `inputs`, are constants.
    """
    return value_gradient_and_others(lambda *x: (function(*x), {}), inputs)[:2]


def value_gradient_and_others(
    function: Callable[..., Any], inputs: list[Any]
) -> tuple[Any, ...]:
    """As `value_and_gradient`, for a function that also returns a dict."""
    if not inputs:
        value, others = function()
        return value, [], others
    differentiate = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    result = differentiate[keras.backend.backend()](function, inputs)
    return tuple(result)


def _tensorflow(function: Callable[..., Any], inputs: list[Any]) -> Any:
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        value, others = function(*inputs)
    gradients = tape.gradient(
        value, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # The gradient of an embedding is sparse.
    return value, [tf.convert_to_tensor(g) for g in gradients], others


def _jax(function: Callable[..., Any], inputs: list[Any]) -> Any:
    import jax

    def total(*inputs: Any) -> Any:
        value, others = function(*inputs)
        return value.sum(), (value, others)

    gradients, (value, others) = jax.grad(
        total, argnums=tuple(range(len(inputs))), has_aux=True
    )(*inputs)
    # The training step is differentiated too. Without `stop_gradient` its
    # gradient would include the update of the table.
    return value, [jax.lax.stop_gradient(g) for g in gradients], others


def _torch(function: Callable[..., Any], inputs: list[Any]) -> Any:
    import torch

    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        value, others = function(*leaves)
        # The gradient of the model needs the graph again.
        gradients = torch.autograd.grad(
            value.sum(), leaves, retain_graph=True, materialize_grads=True
        )
    return value, list(gradients), others
