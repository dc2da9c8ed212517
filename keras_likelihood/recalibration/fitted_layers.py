"""Keras layers with given weights."""

import keras
import numpy as np

from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.layers import PredictedParameter


def predicted_parameter(
    likelihood, name, features, kernel, bias, *, units, offset
):
    """A likelihood parameter as a linear function of a symbolic tensor.

    Args:
        likelihood: name of the likelihood.
        name: the name of its parameter.
        features: symbolic tensor `(batch, ..., columns)`.
        kernel: `(columns,)` or `(columns, 1)`.
        bias: a number or `(1,)`.
        units: size of the last axis of the prediction.
        offset: the offset of the shifted softplus.

    Returns:
        Symbolic tensor of the parameter.
    """
    layer = PredictedParameter(
        likelihood,
        name,
        units=units,
        constraint=ShiftedSoftplus(offset),
        name=f"predicted_{name}",
    )
    predicted = layer(features)
    layer.set_weights([np.reshape(kernel, (-1, 1)), np.reshape(bias, (1,))])
    return predicted


def hidden_layers(x, parts, name):
    """The hidden tanh layers of a fitted network on a symbolic tensor.

    Args:
        x: symbolic tensor `(batch, ..., columns)`.
        parts: `[kernel, bias, kernel, bias, ...]` of the hidden layers.
        name: what the network predicts, for the layers' names.
    """
    pairs = zip(parts[::2], parts[1::2], strict=True)
    for index, (kernel, bias) in enumerate(pairs):
        layer = keras.layers.Dense(
            kernel.shape[1], "tanh", name=f"{name}_hidden_{index}"
        )
        x = layer(x)
        layer.set_weights([kernel, bias])
    return x
