"""Reading and acting on what adaptive regularizers have learned."""

import keras
import numpy as np
from keras import ops

from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)


def adaptive_weights(model: keras.Layer) -> list:
    """The weights of `model` that have an adaptive regularizer.

    Args:
        model: a model or layer.

    Returns:
        List of `keras.Variable`; `weight.regularizer` is the regularizer.

    Example:

    ```python
    for weight in kl.regularizers.adaptive_weights(model):
        print(weight.path, weight.regularizer.strength())
    ```
    """
    return [
        weight
        for weight in model.trainable_weights
        if isinstance(weight.regularizer, AdaptiveRegularizer)
    ]


def prune(model: keras.Layer, threshold: float | None = None) -> dict:
    """Sets the weights that adaptive regularizers have switched off to zero.

    Args:
        model: a model or layer, changed in place.
        threshold: largest absolute value that is set to zero, `>= 0`. The
            default, `None`, asks each regularizer (`switched_off`).

    Returns:
        `{path of the weight: number of zeros it now has}`.

    Example:

    ```python
    zeros = kl.regularizers.prune(model)
    ```
    """
    if threshold is not None and not threshold >= 0:
        raise ValueError(f"`threshold` must be >= 0. Received: {threshold}")
    zeros = {}
    for weight in adaptive_weights(model):
        value = ops.convert_to_numpy(weight)
        if threshold is None:
            off = weight.regularizer.switched_off(value)
        else:
            off = np.abs(value) <= threshold
        value = np.where(off, np.zeros_like(value), value)
        weight.assign(value)
        zeros[weight.path] = int(np.sum(value == 0))
    return zeros
