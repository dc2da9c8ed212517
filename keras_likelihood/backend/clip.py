"""Bounding a tensor by numbers, in one pass and in its own precision."""

import keras
from keras import ops


def clip(x, low, high):
    """`x` held between two numbers or two tensors; same shape and dtype.

    Stock `ops.clip` on PyTorch makes float32 tensors of numbers, which is
    several times slower and turns bounds beyond its range into 0 or infinity;
    `ops.minimum` and `ops.maximum` make float32 of float64.
    """
    if keras.backend.backend() == "torch":
        return x.clamp(low, high)
    return ops.clip(x, low, high)
