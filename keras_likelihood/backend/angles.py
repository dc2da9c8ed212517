"""Functions of angles, in the precision of their argument."""

import keras


def i0e(x):
    """`exp(-|x|) I0(x)`, I0 a modified Bessel function."""
    return _functions()[0](x)


def i1e(x):
    """`exp(-|x|) I1(x)`, I1 a modified Bessel function."""
    return _functions()[1](x)


def sin(x):
    """`sin(x)`. On JAX `ops.sin` turns float64 into float32."""
    return _functions()[2](x)


def _functions():
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.math.bessel_i0e, tf.math.bessel_i1e, tf.math.sin
    if backend == "jax":
        from jax import numpy
        from jax.scipy import special

        return special.i0e, special.i1e, numpy.sin
    import torch

    return torch.special.i0e, torch.special.i1e, torch.sin
