"""Modified Bessel functions, scaled so that they do not overflow."""

import keras


def i0e(x):
    """`exp(-|x|) I0(x)`."""
    return _functions()[0](x)


def i1e(x):
    """`exp(-|x|) I1(x)`."""
    return _functions()[1](x)


def _functions():
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.math.bessel_i0e, tf.math.bessel_i1e
    if backend == "jax":
        from jax.scipy import special
    else:
        from torch import special
    return special.i0e, special.i1e
