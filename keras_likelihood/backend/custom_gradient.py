"""Functions with custom gradients, on each backend."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.types import Tensor


def with_gradient(
    forward: Callable[..., Any], backward: Callable[..., Any]
) -> Any:
    """A function of tensors with a hand-written first derivative.

    `forward` maps the inputs to `(output, residuals)`, and `backward` maps
    `(residuals, upstream)` to a tuple of functions without arguments, which
    return the gradients with respect to each input. PyTorch only calls those
    that it needs. The gradient cannot be differentiated again.
    """
    builders = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    return builders[keras.backend.backend()](forward, backward)


def _tensorflow(
    forward: Callable[..., Any], backward: Callable[..., Any]
) -> Any:
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


def _jax(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    import jax

    @jax.custom_vjp
    def function(*inputs: Any) -> Any:
        return forward(*inputs)[0]

    function.defvjp(
        forward,
        lambda residuals, upstream: tuple(
            part() for part in backward(residuals, upstream)
        ),
    )
    return function


def _torch(forward: Callable[..., Any], backward: Callable[..., Any]) -> Any:
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
