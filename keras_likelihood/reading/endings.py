"""The last layers of a graph, which determine the meaning of its output."""

from collections.abc import Iterable, Iterator
from typing import Any

import keras

from keras_likelihood.backend.private import producer
from keras_likelihood.backend.types import Tensor
from keras_likelihood.layers import LikelihoodHead
from keras_likelihood.reading.loading import is_graph

PROBABILITIES = ("softmax", "sigmoid")
_CONVOLUTIONS = keras.layers.Conv1D | keras.layers.Conv2D | keras.layers.Conv3D
_ACTIVATED = keras.layers.Dense | keras.layers.EinsumDense | _CONVOLUTIONS
_BARE = (keras.layers.Activation, keras.layers.Softmax)
_SHAPE_ONLY = (
    *("Reshape", "Flatten", "Squeeze", "ExpandDims"),
    *("Identity", "ConformalScores", "LikelihoodPrediction"),
)
"""Layers and operations, by name, that do not change the values."""


def deciding_layer(tensor: Tensor) -> tuple[Any, list[Tensor]]:
    """The layer that determines the meaning of an output, and its inputs."""
    layer, inputs, position = producer(tensor)
    if is_graph(layer):
        return deciding_layer(layer.outputs[position])
    if _passes(layer, tensor, inputs):
        return deciding_layer(inputs[0])
    return layer, inputs


def kind_of(tensor: Tensor) -> str | None:
    """`"softmax"`, `"sigmoid"`, `"linear"`, or `None` if unrecognised."""
    layer, inputs = deciding_layer(tensor)
    if isinstance(layer, keras.layers.Softmax):
        return "softmax" if layer.axis in (-1, None) else None
    if isinstance(layer, keras.layers.Concatenate):
        kinds = {kind_of(each) for each in inputs}
        return "sigmoid" if kinds == {"sigmoid"} else None
    if isinstance(layer, LikelihoodHead):
        layer = layer.prediction
    if isinstance(layer, keras.layers.Wrapper):
        layer = layer.layer
    if isinstance(layer, _ACTIVATED | keras.layers.Activation):
        name = getattr(layer.activation, "__name__", None)
        return name if name in (*PROBABILITIES, "linear") else None
    return None


def open_ending(tensor: Tensor, strip: bool) -> tuple[Tensor, Tensor]:
    """Logits and features; `strip` removes a final softmax or sigmoid."""
    layer, inputs, _ = producer(tensor)
    if _passes(layer, tensor, inputs):
        logits, features = open_ending(inputs[0], strip)
        return (logits if logits is None else layer(logits)), features
    if isinstance(layer, _BARE):
        _, features = open_ending(inputs[0], strip=False)
        return (inputs[0] if strip else tensor), features
    whole = isinstance(layer, keras.Model)
    features = None if whole or len(inputs) != 1 else inputs[0]
    if strip and isinstance(layer, _ACTIVATED):
        return _without_activation(layer)(inputs[0]), features
    return (None if strip else tensor), features


def open_models(graph: Any, name: str | None = None) -> keras.Model:
    """A graph in which the last layer and the layer `name` are not nested."""
    end = _nested_at_end(keras.tree.flatten(graph.output)[0])
    holders = [layer for layer in graph.layers if _holds(layer, name)]
    nested = end or next(iter(holders), None)
    if nested is None:
        return graph
    taken = {layer.name for layer in graph.operations}
    # A Sequential has no operations, only layers.
    for layer in getattr(nested, "operations", nested.layers):
        if layer.name in taken:
            layer.name = f"{nested.name}_{layer.name}"

    def call(layer: Any, *args: Any, **kwargs: Any) -> Tensor:
        # `call` runs the layers inside the model without the model itself.
        return (layer.call if layer is nested else layer)(*args, **kwargs)

    graph = keras.models.clone_model(
        graph, clone_function=lambda layer: layer, call_function=call
    )
    return open_models(graph, name)


def _nested_at_end(tensor: Tensor) -> keras.Model | None:
    layer, inputs, _ = producer(tensor)
    if is_graph(layer):
        return layer
    if isinstance(layer, _BARE) or type(layer).__name__ in _SHAPE_ONLY:
        return _nested_at_end(inputs[0])
    return None


def _holds(layer: Any, name: str | None) -> bool:
    return is_graph(layer) and any(
        inner.name == name or _holds(inner, name) for inner in layer.layers
    )


def _made_by(outputs: Iterable[Tensor]) -> Iterator[tuple[Tensor, Any, int]]:
    """The tensors behind outputs, and the layer and position of each."""
    seen, waiting = set(), list(outputs)
    while waiting:
        tensor = waiting.pop()
        if id(tensor) not in seen:
            seen.add(id(tensor))
            layer, inputs, position = producer(tensor)
            yield tensor, layer, position
            waiting += inputs


def rename_duplicates(graph: keras.Model, outputs: list[Tensor]) -> None:
    """Renames layers of a graph whose names also occur in new outputs."""
    old = {id(operation) for operation in graph.operations}
    layers = [layer for _, layer, _ in _made_by(outputs)]
    new = {layer.name for layer in layers if id(layer) not in old}
    taken = {operation.name for operation in graph.operations} | new
    for operation in graph.operations:
        if operation.name in new:
            while operation.name in taken:
                operation.name = f"first_{operation.name}"
            taken.add(operation.name)


def layer_output(graph: keras.Model, name: str) -> Tensor:
    """The output of a layer in a graph."""
    for tensor, layer, position in _made_by(keras.tree.flatten(graph.output)):
        if layer.name == name and position == 0:
            return tensor
    return graph.get_layer(name).output


def _passes(layer: Any, tensor: Tensor, inputs: list[Tensor]) -> bool:
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


def _without_activation(layer: Any) -> keras.Layer:
    config = {**layer.get_config(), "activation": "linear"}
    config["name"] = f"{layer.name}_logits"
    linear = type(layer).from_config(config)
    linear.build(layer.input.shape)
    linear.set_weights(layer.get_weights())
    return linear
