"""The last layers of a graph, which decide what its output means."""

import keras

from keras_likelihood.backend.private import producer
from keras_likelihood.layers import LikelihoodHead
from keras_likelihood.layers.serving import (
    LinearPool,
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
_BARE = (keras.layers.Activation, keras.layers.Softmax)
_SHAPE_ONLY = (
    *("Reshape", "Flatten", "Squeeze", "ExpandDims"),
    *("Identity", "ConformalScores", "LikelihoodPrediction"),
)
"""Layers and operations, by name, that do not change the values."""


def last_layer(tensor):
    """The layer that decides what a symbolic output means.

    The search goes into nested models, and skips layers that do not change the
    values.
    """
    return _deciding_layer(tensor)[0]


def _deciding_layer(tensor):
    layer, inputs, position = producer(tensor)
    if is_graph(layer):
        return _deciding_layer(layer.outputs[position])
    if _passes(layer, tensor, inputs):
        return _deciding_layer(inputs[0])
    return layer, inputs


def kind_of(tensor) -> str | None:
    """`"softmax"`, `"sigmoid"`, `"linear"`, or `None` if unrecognised."""
    layer, inputs = _deciding_layer(tensor)
    if isinstance(layer, keras.layers.Softmax):
        return "softmax" if layer.axis in (-1, None) else None
    if isinstance(layer, OneVsRestTable | TemperedProbabilities):
        return "softmax"
    if isinstance(layer, SecondClass):
        return "sigmoid"
    if isinstance(layer, LinearPool | keras.layers.Concatenate):
        # A mean, or questions side by side, are what all their inputs are.
        kinds = {kind_of(each) for each in inputs}
        (kind,) = kinds if len(kinds) == 1 else (None,)
        pooled = isinstance(layer, LinearPool) or kind == "sigmoid"
        return kind if kind in PROBABILITIES and pooled else None
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

    With `strip` the softmax or sigmoid at its end is removed. The logits are
    `None` if that is not possible. The features are `None` if the layer does
    not have one input.
    """
    layer, inputs, _ = producer(tensor)
    if _passes(layer, tensor, inputs):
        logits, features = open_ending(inputs[0], strip)
        return (logits if logits is None else layer(logits)), features
    if isinstance(layer, _BARE):
        _, features = open_ending(inputs[0], strip=False)
        return (inputs[0] if strip else tensor), features
    single = len(inputs) == 1 and not isinstance(
        layer, keras.Model | LinearPool
    )
    features = inputs[0] if single else None
    if strip and isinstance(layer, _ACTIVATED):
        return _without_activation(layer)(inputs[0]), features
    return (None if strip else tensor), features


def open_models(graph, name: str | None = None) -> keras.Model:
    """Returns a graph with the same layers that ends in no nested model.

    The layer called `name` is not inside a nested model either.
    """
    while True:
        nested = _nested_at_end(keras.tree.flatten(graph.output)[0])
        if nested is None:
            holders = (v for v in graph.layers if _holds(v, name))
            nested = next(holders, None)
        if nested is None:
            return graph
        graph = _with_layers_of(graph, nested)


def _with_layers_of(graph, nested):
    taken = {layer.name for layer in graph.operations}
    # A Sequential has layers alone.
    for layer in getattr(nested, "operations", nested.layers):
        if layer.name in taken:
            layer.name = f"{nested.name}_{layer.name}"

    def call(layer, *args, **kwargs):
        # `call` runs the layers inside the model without the model itself.
        return (layer.call if layer is nested else layer)(*args, **kwargs)

    return keras.models.clone_model(
        graph, clone_function=lambda layer: layer, call_function=call
    )


def rename_twins(graph, outputs):
    """Renames layers of a graph whose names occur again in its outputs.

    A model that is recalibrated twice has layers of the same names.
    """
    old = {id(operation) for operation in graph.operations}
    new, waiting = {}, list(outputs)
    while waiting:
        layer, inputs, _ = producer(waiting.pop())
        if id(layer) not in old and layer.name not in new:
            new[layer.name] = layer
            waiting += inputs
    taken = {operation.name for operation in graph.operations} | set(new)
    for operation in graph.operations:
        if operation.name in new:
            while operation.name in taken:
                operation.name = f"first_{operation.name}"
            taken.add(operation.name)


def layer_output(graph, name: str):
    """The output of a layer in a graph."""
    seen, waiting = set(), keras.tree.flatten(graph.output)
    while waiting:
        tensor = waiting.pop()
        layer, inputs, position = producer(tensor)
        if layer.name == name and position == 0:
            return tensor
        if id(tensor) not in seen:
            seen.add(id(tensor))
            waiting += inputs
    return graph.get_layer(name).output


def _nested_at_end(tensor):
    layer, inputs, _ = producer(tensor)
    if is_graph(layer):
        return layer
    if isinstance(layer, _BARE) or type(layer).__name__ in _SHAPE_ONLY:
        return _nested_at_end(inputs[0])
    return None


def _holds(layer, name):
    return is_graph(layer) and any(
        inner.name == name or _holds(inner, name) for inner in layer.layers
    )


def _passes(layer, tensor, inputs):
    if type(layer).__name__ in _SHAPE_ONLY:
        # A softmax is over the last axis, which must not change.
        kept = tensor.shape[-1:] == inputs[0].shape[-1:]
        return kept or kind_of(inputs[0]) != "softmax"
    # This occurs at the end of a model in mixed precision.
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
