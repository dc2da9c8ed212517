"""Compiled functions, and host callbacks in compiled steps."""

from collections.abc import Callable
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function, whole: bool = False) -> _Function:
    """Compiles a function of tensors, once per shape of its arguments.

    Eager JAX compiles a loop whenever its body is a new closure, and eager
    TensorFlow runs it as many small operations. PyTorch runs the function as it
    is. With `whole`, XLA compiles it also on TensorFlow, which takes seconds.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # The loops need no conversion by autograph. They fix the shapes of
        # their tensors, so each shape is traced separately.
        made: _Function = tf.function(
            function, autograph=False, jit_compile=whole
        )
        return made
    if keras.backend.backend() == "jax":
        import jax

        jitted: _Function = jax.jit(function)
        return jitted
    return function


def is_known(tensor: Any) -> bool:
    """Whether a tensor has values, that is, is not being traced."""
    if isinstance(tensor, keras.KerasTensor):
        return False
    if keras.backend.backend() == "tensorflow":
        return not ops.is_tensor(tensor) or hasattr(tensor, "numpy")
    if keras.backend.backend() == "jax":
        import jax

        return not isinstance(tensor, jax.core.Tracer)
    return True


def call_host(
    function: Callable[..., Any],
    arguments: list[Any],
    *,
    shape: tuple[Any, ...],
    dtype: str,
) -> Any:
    """Runs `function` on the host, once per step and in program order.

    `function` maps NumPy arrays to one array of the given static shape, in
    which an axis may be `None` on TensorFlow. XLA inside TensorFlow does not
    support host calls. On JAX a call is only ordered by its arguments.
    """
    if keras.backend.backend() == "torch":
        result = function(*(a.detach().cpu().numpy() for a in arguments))
        return ops.convert_to_tensor(result, dtype=dtype)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        result = tf.numpy_function(function, arguments, tf.as_dtype(dtype))
        result.set_shape(shape)
        return result
    import jax
    from jax.experimental import io_callback

    def on_host(*arrays: Any) -> Any:
        return function(*(np.asarray(a) for a in arrays))

    arguments = [jax.lax.stop_gradient(a) for a in arguments]
    return io_callback(on_host, jax.ShapeDtypeStruct(shape, dtype), *arguments)
