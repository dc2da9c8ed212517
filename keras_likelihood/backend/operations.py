"""Operations that `keras.ops` and `keras.random` lack."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.types import Array, Tensor


def library_of(x: Tensor) -> Any:
    """NumPy for arrays, `keras.ops` for tensors."""
    return np if isinstance(x, np.ndarray) else ops


def clip(x: Tensor, low: Any, high: Any) -> Tensor:
    """`x` clipped to two numbers or two tensors, in the same dtype.

    On PyTorch `ops.clip` converts numbers to float32 tensors, which is several
    times slower, and `ops.minimum` casts float64 to float32.
    """
    if keras.backend.backend() == "torch":
        return x.clamp(low, high)
    if ops.is_tensor(low):
        # TensorFlow's clip does not broadcast `x` against its bounds.
        return ops.minimum(ops.maximum(x, low), high)
    return ops.clip(x, low, high)


def bessel(order: int, x: Tensor) -> Tensor:
    """`exp(-|x|) I(x)`, I the modified Bessel function of order 0 or 1."""
    if keras.backend.backend() == "tensorflow":
        from tensorflow import math

        return (math.bessel_i0e, math.bessel_i1e)[order](x)
    if keras.backend.backend() == "jax":
        from jax.scipy import special
    else:
        from torch import special
    return (special.i0e, special.i1e)[order](x)


def trigonometric(name: str, x: Tensor) -> Tensor:
    """`sin(x)` or another; on JAX `ops.sin` casts float64 to float32."""
    if keras.backend.backend() != "jax":
        return getattr(ops, name)(x)
    import jax

    return getattr(jax.numpy, name)(x)


def sums_of_equal(values: list[Any], index: Any) -> list[Any]:
    """For each entry `(batch, ...)`, the sum over entries of equal index."""
    ordered = ops.sort(index)
    if keras.backend.backend() == "jax":
        import jax.numpy as jnp

        # The default method is a loop, which is slow on a GPU.
        place = jnp.searchsorted(ordered, index, method="sort")
    else:
        place = ops.cast(ops.searchsorted(ordered, index), "int32")

    def sum_rows(x: Tensor) -> Tensor:
        if keras.backend.backend() == "torch":
            return x.new_zeros(x.shape).index_add_(0, place, x)
        return ops.segment_sum(x, place, num_segments=ops.shape(place)[0])

    return [ops.take(sum_rows(x), place, axis=0) for x in values]


def gather_rows(variable: Any, index: Tensor) -> Tensor:
    """Rows `variable[index]` as a tensor `(batch, ...)`, without checks."""
    if keras.backend.backend() == "jax":
        return variable.value.at[index].get(mode="promise_in_bounds")
    if keras.backend.backend() == "torch":
        return variable.value.detach().index_select(0, index)
    import tensorflow as tf

    return tf.raw_ops.ResourceGather(
        resource=_resource(variable), indices=index, dtype=variable.dtype
    )


def scatter_rows(variable: Any, index: Tensor, rows: Tensor) -> None:
    """`variable[index] = rows` in place; equal indices must have equal rows."""
    if keras.backend.backend() == "jax":
        rows_at = variable.value.at[index]
        variable.assign(rows_at.set(rows, mode="promise_in_bounds"))
    elif keras.backend.backend() == "torch":
        variable.value.detach().index_copy_(0, index.long(), rows.detach())
    else:
        import tensorflow as tf

        tf.raw_ops.ResourceScatterUpdate(
            resource=_resource(variable), indices=index, updates=rows
        )


def _resource(variable: Any) -> Any:
    import tensorflow as tf

    table = variable.value
    if tf.distribute.in_cross_replica_context():
        strategy = tf.distribute.get_strategy()
        table = strategy.experimental_local_results(table)[0]
    return table.handle


def lookup(rows: Array, x: Tensor, ends: tuple[float, ...]) -> list[Tensor]:
    """The columns of a small array `(count, width)`, a row for each interval.

    The intervals of `x` end at `ends`. `ops.take` handles bad indices in
    several passes, which take longer than the lookup. JAX selects between a few
    numbers faster than it reads a table.
    """
    if keras.backend.backend() == "jax":
        chosen = [*map(ops.convert_to_tensor, rows[0])]
        for end, row in zip(ends, rows[1:], strict=True):
            pairs = zip(row, chosen, strict=True)
            chosen = [ops.where(x >= end, *pair) for pair in pairs]
        return chosen
    index = sum(ops.cast(x >= end, "int32") for end in ends)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return list(tf.unstack(tf.gather(rows, index), axis=-1))
    flat = index.reshape(-1)
    return [
        ops.convert_to_tensor(column).index_select(0, flat).reshape(index.shape)
        for column in rows.T.copy()
    ]


def computes_apart() -> bool:
    """Whether results should share few intermediate results.

    On JAX, XLA writes to memory what several results share, unless it is cheap.
    It takes longer to write and read that than to compute it again. So each
    result has its own copy, in another form, as XLA merges equal ones.
    """
    return keras.backend.backend() == "jax"


def in_one_loop(product: Tensor) -> Tensor:
    """A product to be summed, clipped to the finite numbers on JAX.

    On a CPU, XLA stores both factors of a sum of products, even if one of them
    is a constant. It computes a clipped product in the loop that computes the
    factors.
    """
    if keras.backend.backend() != "jax":
        return product
    import jax

    largest = float(jax.numpy.finfo(product.dtype).max)
    return ops.clip(product, -largest, largest)


def seed_generator(seed: Any) -> Any:
    """Returns a `SeedGenerator`, given itself, an integer or `None`."""
    if isinstance(seed, keras.random.SeedGenerator):
        return seed
    return keras.random.SeedGenerator(seed)


def draw_poisson(mean: Tensor, seed: Any = None) -> Tensor:
    """Draws a Poisson number for every mean `>= 0`, in its shape and dtype.

    Above 1e9 the normal distribution is used, with an error below the precision
    of float32.
    """
    seed = seed_generator(seed)
    small = ops.where(mean < 1e9, mean, ops.ones_like(mean))
    drawn = _draw_poisson(small, seed.next())
    normal = keras.random.normal(ops.shape(mean), dtype=mean.dtype, seed=seed)
    large = ops.round(mean + ops.sqrt(mean) * normal)
    return ops.where(mean < 1e9, ops.cast(drawn, mean.dtype), large)


def _draw_poisson(mean: Tensor, seed: Any) -> Tensor:
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        seed, shape = tf.cast(seed, tf.int32), tf.shape(mean)
        return tf.random.stateless_poisson(shape, seed, mean, mean.dtype)
    if keras.backend.backend() == "jax":
        from jax import random

        key = random.wrap_key_data(seed.astype("uint32"), impl="threefry2x32")
        return random.poisson(key, mean)
    import torch

    generator = torch.Generator(device=mean.device)
    first, second = (int(s) & 0xFFFFFFFF for s in seed)
    generator.manual_seed(first | (second << 32))
    return torch.poisson(mean.detach(), generator=generator)
