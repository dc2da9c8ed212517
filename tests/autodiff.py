"""Gradients by automatic and by finite differentiation."""

import functools

import keras
import numpy as np


def gradients(function, *arrays):
    """Gradients of the sum of `function(*tensors)` w.r.t. each NumPy array."""
    return values_and_gradients(function, *arrays)[1]


def values_and_gradients(function, *arrays, given=()):
    """`function(*tensors)` and the gradients of its sum w.r.t. each array.

    Args:
        function: function of tensors, which JAX compiles once per shape.
        *arrays: of NumPy.
        given: arrays that `function` gets after those, without a gradient.
            JAX takes long to compile a program that holds large arrays.
    """
    backend = keras.backend.backend()
    given = [keras.ops.convert_to_tensor(a) for a in given]
    if backend == "tensorflow":
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(a) for a in arrays]
        with tf.GradientTape() as tape:
            for tensor in tensors:
                tape.watch(tensor)
            values = function(*tensors, *given)
            total = keras.ops.sum(values)
        found = tape.gradient(total, tensors)
    elif backend == "jax":
        tensors = [keras.ops.convert_to_tensor(a) for a in arrays]
        program = _gradient_program(function, len(arrays))
        found, values = program(*tensors, *given)
    else:
        import torch

        tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
        values = function(*tensors, *given)
        total = keras.ops.sum(values)
        found = torch.autograd.grad(total, tensors, allow_unused=True)
    found = [
        np.zeros_like(a) if g is None else keras.ops.convert_to_numpy(g)
        for g, a in zip(found, arrays, strict=True)
    ]
    return keras.ops.convert_to_numpy(values), found


@functools.lru_cache(maxsize=8)
def _gradient_program(function, count):
    """One program for JAX, which compiles faster than single operations."""
    import jax

    def total_and_values(*tensors):
        values = function(*tensors)
        return keras.ops.sum(values), values

    return jax.jit(
        jax.grad(total_and_values, argnums=tuple(range(count)), has_aux=True)
    )


def compiled(function):
    """`function` of tensors as one program, if the backend has programs.

    Many calls are far faster than calls of its single operations.
    """
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    if backend == "jax":
        import jax

        return jax.jit(function)
    return function


def central_differences(function, *arrays, step=1e-5):
    """Slow oracle: changes one float64 entry at a time."""
    arrays = [np.array(a, dtype="float64") for a in arrays]
    sum_of = compiled(lambda *tensors: keras.ops.sum(function(*tensors)))

    def total():
        return float(sum_of(*(keras.ops.convert_to_tensor(a) for a in arrays)))

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


def for_scipy(function):
    """`function` of one float64 vector, with its gradient, for SciPy."""

    def both(theta):
        backend = keras.backend.backend()
        if backend == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                tape.watch(theta)
                value = function(theta)
            return value, tape.gradient(value, theta)
        if backend == "jax":
            import jax

            return jax.value_and_grad(function)(theta)
        import torch

        theta = theta.requires_grad_()
        value = function(theta)
        return value.detach(), torch.autograd.grad(value, theta)[0]

    program = compiled(both)

    def call(theta):
        found = program(keras.ops.convert_to_tensor(theta))
        value, gradient = map(keras.ops.convert_to_numpy, found)
        return float(value), np.asarray(gradient, "float64")

    return call
