"""Functions that change only the gradient."""

import keras
from keras import ops


def scale_step(weight, multiplier: float):
    """`multiplier * weight`, with the gradient of `weight` left as it is.

    With any optimizer, such as SGD or Adam, the product then moves by
    `multiplier` times the usual step.
    """
    if multiplier == 1.0:
        return weight
    weight = ops.convert_to_tensor(weight)
    return ops.stop_gradient(multiplier * weight) + (
        weight - ops.stop_gradient(weight)
    )


def clip_gradient(x, norm: float):
    """`x`, with a gradient whose 2-norm is at most `norm`."""
    return _CLIP[keras.backend.backend()](x, norm)


def _clipped(gradient, norm):
    length = ops.sqrt(ops.sum(ops.square(gradient)))
    return gradient * (norm / ops.maximum(length, norm))


def _clip_tensorflow(x, norm):
    import tensorflow as tf

    @tf.custom_gradient
    def identity(x):
        return tf.identity(x), lambda upstream: _clipped(upstream, norm)

    return identity(tf.convert_to_tensor(x))


def _clip_jax(x, norm):
    import jax

    @jax.custom_vjp
    def identity(x):
        return x

    identity.defvjp(
        lambda x: (x, None),
        lambda _, upstream: (_clipped(upstream, norm),),
    )
    return identity(ops.convert_to_tensor(x))


def _clip_torch(x, norm):
    x = ops.convert_to_tensor(x)
    if not x.requires_grad:
        return x
    same = x.view_as(x)
    same.register_hook(lambda upstream: _clipped(upstream, norm))
    return same


_CLIP = {
    "tensorflow": _clip_tensorflow,
    "jax": _clip_jax,
    "torch": _clip_torch,
}
