"""Gradients on the backend under test, and by differences."""

import keras
import numpy as np


def gradients(function, *arrays):
    """Gradients of the sum of `function(*tensors)` by each NumPy array."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(a) for a in arrays]
        with tf.GradientTape() as tape:
            for tensor in tensors:
                tape.watch(tensor)
            total = keras.ops.sum(function(*tensors))
        found = tape.gradient(total, tensors)
    elif backend == "jax":
        import jax

        # One program compiles faster than each of its operations.
        found = jax.jit(
            jax.grad(
                lambda *t: keras.ops.sum(function(*t)),
                argnums=tuple(range(len(arrays))),
            )
        )(*(keras.ops.convert_to_tensor(a) for a in arrays))
    else:
        import torch

        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        total = keras.ops.sum(function(*tensors))
        found = torch.autograd.grad(total, tensors, allow_unused=True)
    return [
        np.zeros_like(a) if g is None else keras.ops.convert_to_numpy(g)
        for g, a in zip(found, arrays, strict=True)
    ]


def central_differences(function, *arrays, step=1e-5):
    """Slow oracle: moves one float64 entry at a time."""
    arrays = [np.array(a, dtype="float64") for a in arrays]

    def total():
        value = function(*(keras.ops.convert_to_tensor(a) for a in arrays))
        return float(keras.ops.sum(value))

    found = []
    for array in arrays:
        gradient = np.zeros_like(array)
        for i in np.ndindex(array.shape):
            start = array[i]
            array[i] = start + step
            above = total()
            array[i] = start - step
            below = total()
            array[i] = start
            gradient[i] = (above - below) / (2 * step)
        found.append(gradient)
    return found


def value_and_gradients(function):
    """`function` of one float64 vector, with its gradient, for SciPy.

    It is compiled once on JAX, where compiling each call would take long.
    """
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        compiled = jax.jit(jax.value_and_grad(function))

    def call(theta):
        if backend == "jax":
            value, gradient = compiled(keras.ops.convert_to_tensor(theta))
        else:
            value = function(keras.ops.convert_to_tensor(theta))
            (gradient,) = gradients(function, theta)
        return (
            float(keras.ops.convert_to_numpy(value)),
            np.asarray(keras.ops.convert_to_numpy(gradient), "float64"),
        )

    return call
