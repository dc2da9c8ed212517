"""The layers behind the parameters of a model's likelihoods."""

from collections.abc import Iterator

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.layers import LikelihoodHead, PredictedParameter
from keras_likelihood.layers.conformal_scores import ConformalScores
from keras_likelihood.layers.serving import LikelihoodPrediction
from keras_likelihood.likelihoods import Normal, StudentT
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.reading.endings import last_layer
from keras_likelihood.reading.loading import is_graph, output_of


def parameter_layers(model) -> Iterator[tuple[str, keras.Layer]]:
    """Parameter layers inside the model, with the parameter's name."""
    for layer in _walk(model, set()):
        if isinstance(layer, PredictedParameter):
            yield layer.parameter, layer
        elif isinstance(layer, LikelihoodHead):
            names = [p.name for p in layer.likelihood.parameters]
            yield from zip(names, layer.parameter_layers, strict=True)


def likelihood_beside(model, beside, key=""):
    """The likelihood of a model without a loss, and the head that has it.

    Both are `None` if nothing stands `beside` the prediction. A calibrated
    regressor has no head: a layer of it keeps the name of the likelihood, and
    in files of version 0.2 the outputs have the names of the parameters.
    """
    if not beside:
        return None, None
    if is_graph(model):
        for layer in reversed(model.layers):
            if isinstance(layer, ConformalScores):
                return likelihoods.get(layer.settings["likelihood"]), None
            if isinstance(layer, LikelihoodPrediction):
                return likelihoods.get(layer.likelihood), None
        layers = [_layer_behind(model, key, 1 + i) for i in range(len(beside))]
        names = [layer.name for layer in layers]
        for found in (Normal, StudentT):
            if names == [p.name for p in found.parameters]:
                return found, None
    layers = _walk(_layer_behind(model, key, 0), set())
    heads = [layer for layer in layers if isinstance(layer, LikelihoodHead)]
    return (heads[0].likelihood, heads[0]) if len(heads) == 1 else (None, None)


def unit_of(head: LikelihoodHead | None) -> float:
    """The mean spread of the targets of a head's `adapt`, or 1."""
    units = getattr(head, "target_units", None)
    if units is None:
        return 1.0
    return float(np.mean(keras.ops.convert_to_numpy(units.spread)))


def constraint_and_start(model, reading, name, position):
    """Constraint and initial value of one parameter.

    `position` is its place in the output, `None` if it is not there.
    """
    declared = reading.likelihood.parameter(name)
    layer = reading.data_parameters.get(name)
    if position is not None:
        behind = _layer_behind(model, reading.key, 1 + position)
        layers = [v for found, v in parameter_layers(behind) if found == name]
        layer = layers[0] if len(layers) == 1 else None
    elif layer is None:
        given = reading.loss.get_config()[name]
        if isinstance(given, dict):
            layer = keras.saving.deserialize_keras_object(given)
    constraint = getattr(layer, "constraint", None) or declared.constraint
    initial = getattr(layer, "initial", None)
    return constraint, declared.initial if initial is None else initial


def too_many_outputs(count):
    """The error for a model with several outputs."""
    return ValueError(
        "`model` must have one output, a prediction alone or with the "
        f"parameters of one head. Received: {count} outputs"
    )


def _layer_behind(model, key, position):
    """The layer that makes a tensor of the output, or the model itself."""
    if not is_graph(model):
        return model
    output = output_of(model)
    output = output[key] if key else output
    if isinstance(output, dict):
        (output,) = output.values()
    prediction, beside = split_output(output)
    return last_layer([prediction, *beside][position])


def _walk(layer, seen):
    if id(layer) in seen:
        return
    seen.add(id(layer))
    yield layer
    for inner in getattr(layer, "layers", ()):
        yield from _walk(inner, seen)
