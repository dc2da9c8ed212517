"""How a graph ends: which layer decides what its output means."""

import keras

from keras_likelihood.layers import LikelihoodHead
from keras_likelihood.layers.serving import (
    OneVsRestTable,
    SecondClass,
    TemperedProbabilities,
)
from keras_likelihood.reading.loading import is_graph

PROBABILITIES = ("softmax", "sigmoid")
_ACTIVATED = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
)
_SHAPE_ONLY = ("Reshape", "Flatten", "Squeeze", "ExpandDims")
"""Layers and operations, by name, that move values but do not change them."""


def producer(tensor):
    """The layer that made a symbolic tensor, its inputs and its position.

    `layer.output` is that of a layer's first call only; a layer may be
    called twice, and a model within a model is.
    """
    layer, node, position = tensor._keras_history
    return layer, list(layer._inbound_nodes[node].input_tensors), position


def last_layer(tensor):
    """The layer that decides what a symbolic output means.

    Models are entered, and layers that leave the values alone are passed.
    """
    layer, inputs, position = producer(tensor)
    if is_graph(layer):
        return last_layer(layer.outputs[position])
    if _passes(layer, tensor, inputs):
        return last_layer(inputs[0])
    return layer


def kind_of(tensor) -> str | None:
    """`"softmax"`, `"sigmoid"`, `"linear"`, or `None` if unrecognised."""
    layer = last_layer(tensor)
    if isinstance(layer, keras.layers.Softmax):
        return "softmax" if layer.axis in (-1, None) else None
    if isinstance(layer, OneVsRestTable | TemperedProbabilities):
        return "softmax"
    if isinstance(layer, SecondClass):
        return "sigmoid"
    if isinstance(layer, LikelihoodHead):
        layer = layer.prediction
    if isinstance(layer, keras.layers.Wrapper):
        layer = layer.layer
    if isinstance(layer, (*_ACTIVATED, keras.layers.Activation)):
        name = getattr(layer.activation, "__name__", None)
        return name if name in (*PROBABILITIES, "linear") else None
    return None


def open_ending(tensor, strip: bool):
    """Logits and features of a classifier's output, in its graph.

    Args:
        tensor: the output of a graph.
        strip: whether to take off the softmax or sigmoid at its end.

    Returns:
        `(logits, features)`. The logits are `None` if the activation could
        not be taken off, the features if no layer has one input.
    """
    layer, inputs, position = producer(tensor)
    if is_graph(layer):
        opened = open_ending(layer.outputs[position], strip)
        return _lift(layer, inputs, opened)
    if _passes(layer, tensor, inputs):
        logits, features = open_ending(inputs[0], strip)
        return (logits if logits is None else layer(logits)), features
    if isinstance(layer, keras.layers.Activation | keras.layers.Softmax):
        _, features = open_ending(inputs[0], strip=False)
        return (inputs[0] if strip else tensor), features
    single = len(inputs) == 1 and not isinstance(layer, keras.Model)
    features = inputs[0] if single else None
    if strip and isinstance(layer, _ACTIVATED):
        return _without_activation(layer)(inputs[0]), features
    return (None if strip else tensor), features


def layer_output(model, name):
    """The output of a named layer, also of one in a model within `model`."""
    if any(layer.name == name for layer in model.layers):
        return model.get_layer(name).output
    for layer in filter(is_graph, model.layers):
        found = layer_output(layer, name)
        if found is not None:
            inputs = list(layer._inbound_nodes[0].input_tensors)
            return _lift(layer, inputs, [found])[0]
    return None


def _lift(model, inputs, tensors):
    """Tensors within a model as tensors of the graph that calls it."""
    known = [tensor for tensor in tensors if tensor is not None]
    part = keras.Model(model.inputs, known, name=model.name)
    lifted = iter(part(inputs if len(inputs) > 1 else inputs[0]))
    return [None if tensor is None else next(lifted) for tensor in tensors]


def _passes(layer, tensor, inputs):
    if type(layer).__name__ in _SHAPE_ONLY:
        # A softmax is over the last axis: that one must be left as it was.
        kept = tensor.shape[-1:] == inputs[0].shape[-1:]
        return kept or kind_of(inputs[0]) != "softmax"
    # As at the end of a model in mixed precision.
    return (
        isinstance(layer, keras.layers.Activation)
        and layer.activation is keras.activations.linear
        and kind_of(inputs[0]) in PROBABILITIES
    )


def _without_activation(layer):
    config = {**layer.get_config(), "activation": "linear"}
    config["name"] = f"{layer.name}_logits"
    linear = type(layer).from_config(config)
    linear.build(layer.input.shape)
    linear.set_weights(layer.get_weights())
    return linear
