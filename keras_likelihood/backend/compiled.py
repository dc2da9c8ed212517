"""Compiling a function once where operations one by one are slow."""

import keras


def compiled(function, static: int):
    """`function`, compiled once per shape and static arguments.

    Eager JAX compiles a loop anew whenever its body is a new closure, and
    eager TensorFlow runs a loop one small operation after the other. Inside
    this function a loop is compiled with the rest, and found again. PyTorch
    runs a loop as it is.

    Args:
        function: maps arguments to tensors. It must not read anything else
            that changes.
        static: how many of the leading arguments are not tensors. They must
            be hashable.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # The loops are written for graphs; there is nothing to convert.
        return tf.function(function, autograph=False, reduce_retracing=True)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function, static_argnums=tuple(range(static)))
    return function
