"""Control of the steps that train the weights of one parameter."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.custom_gradient import clip_gradient, scale_step


class StepControl:
    """Learning-rate multiplier, weight decay and gradient clipping.

    They act on the weights of one likelihood parameter only. The decay adds
    `weight_decay * ||weight - start||^2` to the loss, and `clipnorm` is the
    largest 2-norm of each weight's gradient.
    """

    def __init__(
        self,
        learning_rate_multiplier: float = 1.0,
        weight_decay: float = 0.0,
        clipnorm: float | None = None,
    ):
        if not learning_rate_multiplier > 0:
            raise ValueError(
                "`learning_rate_multiplier` must be > 0. "
                f"Received: {learning_rate_multiplier}"
            )
        if not weight_decay >= 0:
            raise ValueError(
                f"`weight_decay` must be >= 0. Received: {weight_decay}"
            )
        if clipnorm is not None and not clipnorm > 0:
            raise ValueError(
                f"`clipnorm` must be > 0 or None. Received: {clipnorm}"
            )
        self.learning_rate_multiplier = float(learning_rate_multiplier)
        self.weight_decay = float(weight_decay)
        self.clipnorm = clipnorm and float(clipnorm)

    def add_weight(self, layer, name, shape, start=0.0):
        """Adds to `layer` a weight that is `start` when read through `self`."""
        if self.clipnorm is not None and "mixed_float16" in (
            layer.dtype_policy.name,
            keras.config.dtype_policy().name,
        ):
            raise ValueError(
                "`clipnorm` cannot be used with 'mixed_float16', which scales "
                "the loss. Use 'mixed_bfloat16' or the optimizer's own "
                f"clipping. Received: clipnorm={self.clipnorm}"
            )
        start = np.broadcast_to(np.asarray(start, "float64"), shape)
        stored = start / self.learning_rate_multiplier
        return layer.add_weight(
            shape,
            lambda shape, dtype: ops.convert_to_tensor(stored, dtype=dtype),
            regularizer=_Decay(self, start) if self.weight_decay else None,
            name=name,
        )

    def __call__(self, weight):
        """Reads a weight made by `add_weight`."""
        weight = scale_step(weight, self.learning_rate_multiplier)
        if self.clipnorm is None:
            return weight
        return clip_gradient(weight, self.clipnorm)

    def get_config(self) -> dict:
        return {
            "learning_rate_multiplier": self.learning_rate_multiplier,
            "weight_decay": self.weight_decay,
            "clipnorm": self.clipnorm,
        }


class _Decay(keras.regularizers.Regularizer):
    def __init__(self, control, start):
        self.control = control
        self.start = start

    def __call__(self, weight):
        value = scale_step(weight, self.control.learning_rate_multiplier)
        start = ops.convert_to_tensor(self.start, dtype=value.dtype)
        return self.control.weight_decay * ops.sum(ops.square(value - start))
