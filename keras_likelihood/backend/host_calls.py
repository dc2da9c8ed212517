"""Calls from inside a training step to NumPy code on the host."""

import keras
import numpy as np


def call_host(function, arguments: list, *, shape: tuple, dtype: str):
    """Runs `function` on the host, once per step and in program order.

    On TensorFlow the step must not be compiled by XLA, which cannot leave
    the device. On JAX a call waits only for what it gets as arguments.

    Args:
        function: maps NumPy arrays to one NumPy array.
        arguments: tensors.
        shape: static shape of the result; `None` for an axis not known
            before the step runs (TensorFlow only).
        dtype: the dtype of the result.

    Returns:
        The result as a tensor.
    """
    call = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
    return call[keras.backend.backend()](function, arguments, shape, dtype)


def _tensorflow(function, arguments, shape, dtype):
    import tensorflow as tf

    result = tf.numpy_function(function, arguments, tf.as_dtype(dtype))
    result.set_shape(shape)
    return result


def _jax(function, arguments, shape, dtype):
    import jax
    from jax.experimental import io_callback

    def on_host(*arrays):
        return function(*(np.asarray(a) for a in arrays))

    arguments = [jax.lax.stop_gradient(a) for a in arguments]
    return io_callback(on_host, jax.ShapeDtypeStruct(shape, dtype), *arguments)


def _torch(function, arguments, shape, dtype):
    result = function(*(a.detach().cpu().numpy() for a in arguments))
    return keras.ops.convert_to_tensor(result, dtype=dtype)
