"""Gradients of functions, and functions with gradients of their own."""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
from keras import ops

from keras_likelihood.backend.types import Tensor

Function: TypeAlias = Callable[..., Any]


def value_and_gradient(
    function: Function, inputs: list[Any]
) -> tuple[Any, ...]:
    """The value of a function, and the gradient of its sum for each input.

    The value is still differentiable with respect to everything else that
    `function` depends on. The gradients, a list like `inputs`, are constants.
    """
    return value_gradient_and_others(lambda *x: (function(*x), {}), inputs)[:2]


def value_gradient_and_others(
    function: Function, inputs: list[Any]
) -> tuple[Any, ...]:
    """As `value_and_gradient`, for a function that also returns a dict."""
    if not inputs:
        value, others = function()
        return value, [], others
    differentiate = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    result = differentiate[keras.backend.backend()](function, inputs)
    return tuple(result)


def _tensorflow(function: Function, inputs: list[Any]) -> Any:
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(inputs)
        value, others = function(*inputs)
    gradients = tape.gradient(
        value, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # The gradient of an embedding is sparse.
    return value, [tf.convert_to_tensor(g) for g in gradients], others


def _jax(function: Function, inputs: list[Any]) -> Any:
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


def _torch(function: Function, inputs: list[Any]) -> Any:
    import torch

    with torch.enable_grad():
        leaves = [x.detach().requires_grad_() for x in inputs]
        value, others = function(*leaves)
        # The gradient of the model needs the graph again.
        gradients = torch.autograd.grad(
            value.sum(), leaves, retain_graph=True, materialize_grads=True
        )
    return value, list(gradients), others


def with_gradient(forward: Function, backward: Function) -> Any:
    """A function of tensors with a hand-written first derivative.

    `forward` maps the inputs to `(output, residuals)`, and `backward` maps
    `(residuals, upstream)` to a tuple of functions without arguments, which
    return the gradients with respect to each input. PyTorch only calls those
    that it needs. The gradient cannot be differentiated again.
    """
    builders = {
        "tensorflow": _tensorflow_function,
        "jax": _jax_function,
        "torch": _torch_function,
    }
    return builders[keras.backend.backend()](forward, backward)


def _tensorflow_function(forward: Function, backward: Function) -> Any:
    import tensorflow as tf

    @tf.custom_gradient
    def function(*inputs: Any) -> Any:
        output, residuals = forward(*inputs)

        def gradient(upstream: Tensor) -> Any:
            # The tape treats the residuals as constants, so a second
            # derivative would be silently wrong.
            return [
                tf.raw_ops.PreventGradient(
                    input=part(), message="The gradient is of first order only."
                )
                for part in backward(residuals, upstream)
            ]

        return output, gradient

    return function


def _jax_function(forward: Function, backward: Function) -> Any:
    import jax

    function = jax.custom_vjp(lambda *inputs: forward(*inputs)[0])
    function.defvjp(
        forward,
        lambda residuals, upstream: tuple(
            part() for part in backward(residuals, upstream)
        ),
    )
    return function


def _torch_function(forward: Function, backward: Function) -> Any:
    import torch
    from torch.autograd.function import once_differentiable

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Tensor, *inputs: Any) -> Any:
            output, residuals = forward(*inputs)
            ctx.save_for_backward(*residuals)
            return output

        @staticmethod
        @once_differentiable
        def backward(ctx: Tensor, upstream: Tensor) -> Any:
            parts = backward(ctx.saved_tensors, upstream)
            pairs = zip(parts, ctx.needs_input_grad, strict=True)
            return tuple(part() if needed else None for part, needed in pairs)

    return Function.apply


def scale_step(weight: Tensor, multiplier: float) -> Tensor:
    """`multiplier * weight`, with the gradient of `weight` itself.

    With any optimizer, such as SGD or Adam, a step of the product is then
    `multiplier` times as large.
    """
    if multiplier == 1.0:
        return weight
    weight = ops.convert_to_tensor(weight)
    return ops.stop_gradient(multiplier * weight) + (
        weight - ops.stop_gradient(weight)
    )


def clip_gradient(x: Tensor, norm: float) -> Tensor:
    """`x`, with a gradient whose 2-norm is at most `norm`."""

    def clipped(_: Tensor, gradient: Tensor) -> Tensor:
        length = ops.sqrt(ops.sum(ops.square(gradient)))
        return (lambda: gradient * (norm / ops.maximum(length, norm)),)

    # TensorFlow needs a tensor here, not a variable.
    x = ops.convert_to_tensor(x) + 0
    return with_gradient(lambda x: (x, ()), clipped)(x)
