"""Bounding a tensor by numbers, in one pass and in its own precision."""

import keras
from keras import ops


def clip(x, low, high):
    """`x` held between two numbers or two tensors; same dtype.

    On PyTorch `ops.clip` turns numbers into float32 tensors. This is several
    times slower, and bounds beyond the range of float32 become 0 or infinity.
    `ops.minimum` and `ops.maximum` there turn float64 into float32.
    """
    if keras.backend.backend() == "torch":
        return x.clamp(low, high)
    if ops.is_tensor(low):
        # TensorFlow's clip does not broadcast `x` against its bounds.
        return ops.minimum(ops.maximum(x, low), high)
    return ops.clip(x, low, high)
