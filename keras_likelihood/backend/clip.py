"""Bounding a tensor by numbers, in one pass and in its own precision."""

import keras
from keras import ops


def clip(x, low: float, high: float):
    """`x` held between two numbers; same shape and dtype.

    Stock `ops.clip` on PyTorch makes float32 tensors of the numbers, which is
    several times slower and turns bounds beyond its range into 0 or infinity.
    """
    if keras.backend.backend() == "torch":
        return x.clamp(low, high)
    return ops.clip(x, low, high)
