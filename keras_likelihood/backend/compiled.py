"""Functions handed to a backend: compiled, or called on the host in a step."""

import keras
import numpy as np


def compiled(function):
    """`function` of tensors alone, compiled once per shape of its arguments.

    Eager JAX compiles a loop anew whenever its body is a new closure, and
    eager TensorFlow runs a loop one small operation after the other. Inside
    this function a loop is compiled with the rest, and found again. PyTorch
    runs a loop as it is.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # The loops are written for graphs; there is nothing to convert. They
        # keep the shapes of their tensors, so each shape is traced apart.
        return tf.function(function, autograph=False)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    return function


def is_known(tensor):
    """Whether a tensor has values now: it is not part of a compiled step."""
    if isinstance(tensor, keras.KerasTensor):
        return False
    if keras.backend.backend() == "tensorflow":
        return not keras.ops.is_tensor(tensor) or hasattr(tensor, "numpy")
    if keras.backend.backend() == "jax":
        import jax

        return not isinstance(tensor, jax.core.Tracer)
    return True


def call_host(function, arguments: list, *, shape: tuple, dtype: str):
    """Runs `function` on the host, once per step and in program order.

    It maps NumPy arrays to one array of the given static shape, in which an
    axis may be `None` on TensorFlow. There the step must not be compiled by
    XLA, which cannot leave the device. On JAX a call waits only for what it
    gets as arguments.
    """
    if keras.backend.backend() == "torch":
        result = function(*(a.detach().cpu().numpy() for a in arguments))
        return keras.ops.convert_to_tensor(result, dtype=dtype)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        result = tf.numpy_function(function, arguments, tf.as_dtype(dtype))
        result.set_shape(shape)
        return result
    import jax
    from jax.experimental import io_callback

    def on_host(*arrays):
        return function(*(np.asarray(a) for a in arrays))

    arguments = [jax.lax.stop_gradient(a) for a in arguments]
    return io_callback(on_host, jax.ShapeDtypeStruct(shape, dtype), *arguments)
