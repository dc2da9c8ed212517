"""The layers behind the parameters of a model's likelihoods."""

from collections.abc import Iterator

import keras

from keras_likelihood.constraints import Constraint
from keras_likelihood.layers import (
    LikelihoodHead,
    PredictedParameter,
)


def parameter_layers(model) -> Iterator[tuple[str, keras.Layer]]:
    """Parameter layers inside the model, with the parameter's name."""
    for layer in _walk(model, set()):
        if isinstance(layer, PredictedParameter):
            yield layer.parameter, layer
        elif isinstance(layer, LikelihoodHead):
            declared = layer.likelihood.parameters
            for p, inner in zip(declared, layer.parameter_layers, strict=True):
                yield p.name, inner


def _walk(layer, seen):
    if id(layer) in seen:
        return
    seen.add(id(layer))
    yield layer
    for inner in getattr(layer, "layers", ()):
        yield from _walk(inner, seen)


def constraint_and_start(
    model, key, loss, position
) -> tuple[Constraint, float]:
    """Constraint and initial value of one parameter of the output `key`.

    Args:
        model: the model.
        key: of the output, or `""`.
        loss: its likelihood loss.
        position: of the parameter among those of the likelihood.
    """
    declared = loss.likelihood.parameters[position]
    data = loss.data_parameters.get(declared.name)
    given = loss.get_config()[declared.name]
    if data is not None:
        layer = data
    elif isinstance(given, dict):
        layer = keras.saving.deserialize_keras_object(given)
    else:
        layer = _layer_behind(model, key, loss, declared.name)
    constraint = getattr(layer, "constraint", None) or declared.constraint
    initial = getattr(layer, "initial", None)
    return constraint, declared.initial if initial is None else initial


def _layer_behind(model, key, loss, name):
    """The one layer for this parameter that the output comes from."""
    candidates = [
        layer
        for found, layer in parameter_layers(model)
        if found == name and _likelihood(layer) is loss.likelihood
    ]
    if len(candidates) == 1:
        return candidates[0]
    outputs = getattr(model, "output", None)
    outputs = outputs[key] if key and isinstance(outputs, dict) else outputs
    leaves = {id(leaf) for leaf in keras.tree.flatten(outputs)}
    for head in _walk(model, set()):
        try:
            tensors = keras.tree.flatten(head.output)
        except (AttributeError, ValueError):
            continue
        if head is not model and leaves & {id(tensor) for tensor in tensors}:
            for layer in getattr(head, "parameter_layers", [head]):
                if layer in candidates:
                    return layer
    return None


def _likelihood(layer):
    if isinstance(layer, PredictedParameter):
        return layer.likelihood
    return getattr(layer, "_likelihood", None)
