"""Poisson random numbers, which `keras.random` lacks."""

import keras
from keras import ops


def draw_poisson(mean, seed=None):
    """Draws one Poisson number for every mean; same shape and dtype.

    Args:
        mean: tensor, `>= 0`. Above 1e9 the normal distribution is used. Its
            error is below the precision of float32.
        seed: an integer, a `keras.random.SeedGenerator` or `None`.
    """
    if not isinstance(seed, keras.random.SeedGenerator):
        seed = keras.random.SeedGenerator(seed)
    small = ops.where(mean < 1e9, mean, ops.ones_like(mean))
    drawn = _BY_BACKEND[keras.backend.backend()](small, seed.next())
    normal = keras.random.normal(ops.shape(mean), dtype=mean.dtype, seed=seed)
    large = ops.round(mean + ops.sqrt(mean) * normal)
    return ops.where(mean < 1e9, ops.cast(drawn, mean.dtype), large)


def _tensorflow(mean, seed):
    import tensorflow as tf

    seed = tf.cast(seed, tf.int32)
    return tf.random.stateless_poisson(tf.shape(mean), seed, mean, mean.dtype)


def _jax(mean, seed):
    import jax

    key = jax.random.wrap_key_data(seed.astype("uint32"), impl="threefry2x32")
    return jax.random.poisson(key, mean)


def _torch(mean, seed):
    import torch

    generator = torch.Generator(device=mean.device)
    first, second = (int(s) & 0xFFFFFFFF for s in seed)
    generator.manual_seed(first | (second << 31))
    return torch.poisson(mean.detach(), generator=generator)


_BY_BACKEND = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
