"""A trained model as a frozen source of logits and features."""

import os

import keras
import numpy as np

from keras_likelihood.layers.serving import (
    BoundedLogits,
    LogOdds,
    LogProbabilities,
    PairedLogits,
    SecondClass,
)
from keras_likelihood.recalibration.inputs import SPREAD


class FrozenModel:
    """Finds the logits and the features of a trained classifier.

    Args:
        model: a `keras.Model` or the path of a `.keras` file, which is
            loaded in safe mode.
        example: inputs, for models that were not built as a graph.
        from_logits: whether the output is logits; `None` looks at the last
            layer.
        feature_layer: name of the layer of the features, or `None` for the
            input of the layer of the logits.
        with_features: whether features are wanted.
    """

    def __init__(
        self,
        model,
        example=None,
        from_logits: bool | None = None,
        feature_layer: str | None = None,
        with_features: bool = False,
    ):
        self.model = load(model)
        self.inputs, output = _graph_of(self.model, example)
        self.logits, layer = _logits(self.model, output, from_logits)
        self.features = None
        self._example = None
        if with_features:
            self.features = _features(self.model, layer, feature_layer)

    def outputs(self, x, y=None, weight=None, batch_size=32):
        """Computes logits and features once.

        Returns:
            `(logits, features or None, y, sample_weight or None)` as NumPy.
        """
        wanted = [self.logits]
        if self.features is not None:
            wanted.append(self.features)
        extractor = keras.Model(self.inputs, wanted)
        if y is not None:
            self._example = x[:1] if hasattr(x, "shape") else None
            found = extractor.predict(x, batch_size=batch_size, verbose=0)
            return self._result([found], [y], weight)
        found, labels, weights = [], [], []
        for batch in numpy_batches(x):
            found.append(extractor.predict_on_batch(batch[0]))
            if hasattr(batch[0], "shape"):
                self._example = batch[0][:1]
            labels.append(batch[1])
            if len(batch) == 3:
                weights.append(batch[2])
        if weights:
            weight = np.concatenate(weights)
        return self._result(found, labels, weight)

    def _result(self, found, labels, weight):
        columns = zip(*(_as_list(f) for f in found), strict=True)
        logits, *rest = (np.concatenate(list(c)) for c in columns)
        y = np.concatenate([np.asarray(part) for part in labels])
        if y.shape == (*logits.shape[:-1], 1):
            y = y[..., 0]
        return logits, rest[0] if rest else None, y, weight

    def extend(self, graph) -> keras.Model:
        """Returns the model with `graph(logits, features)` as its output."""
        bounded = BoundedLogits(SPREAD, name="bounded_logits")(self.logits)
        if self.logits.shape[-1] == 1:
            pair = PairedLogits(name="paired_logits")(bounded)
            output = SecondClass(name="yes")(graph(pair, self.features))
        else:
            output = graph(bounded, self.features)
        name = f"{self.model.name}_calibrated"
        model = keras.Model(self.inputs, output, name=name)
        if self._example is not None:
            # Some exports ask for a model that has been called.
            model(keras.ops.convert_to_tensor(self._example))
        return model


def load(model) -> keras.Model:
    """Returns the model itself, or loads it from a `.keras` file."""
    if isinstance(model, keras.Model):
        return model
    if isinstance(model, str | os.PathLike):
        path = os.fspath(model)
        if not os.path.exists(path):
            raise ValueError(f"There is no such file. Received: {path!r}")
        return keras.models.load_model(path, compile=False)
    raise ValueError(
        "`model` must be a `keras.Model` or the path of a `.keras` file. "
        f"Received: {type(model).__name__}"
    )


def _graph_of(model, example):
    if getattr(model, "inputs", None) and getattr(model, "outputs", None):
        if len(model.outputs) != 1:
            raise ValueError(
                "`model` must be a classifier with one output; for regressors "
                "there is `keras_likelihood.recalibration.regression`. "
                f"Received: {len(model.outputs)} outputs"
            )
        single = len(model.inputs) == 1
        given = model.inputs[0] if single else model.inputs
        return given, model.outputs[0]
    shape = getattr(example, "shape", None)
    if shape is None:
        raise ValueError(
            "A model without a graph of its own needs arrays as `x`. "
            f"Received: {type(model).__name__} and {type(example).__name__}"
        )
    given = keras.Input(shape[1:])
    return given, model(given)


def _logits(model, output, from_logits):
    """The tensor of logits and the layer that makes it, where known."""
    last = _layer_of(model, output)
    kind = None if last is None else _activation(last)
    if from_logits is True or (from_logits is None and kind == "linear"):
        return output, last
    if kind in ("softmax", "sigmoid") and from_logits is not True:
        if isinstance(last, keras.layers.Activation | keras.layers.Softmax):
            return last.input, _layer_of(model, last.input)
        linear = _without_activation(last)
        return linear(last.input), last
    if from_logits is None:
        described = "no layer" if last is None else type(last).__name__
        raise ValueError(
            "The last layer must be a softmax, a sigmoid or linear to be "
            "recognised; say `from_logits=True` or `False` for others. "
            f"Received: {described}"
        )
    if output.shape[-1] == 1:
        return LogOdds(name="log_odds")(output), last
    logs = LogProbabilities(SPREAD, name="log_probabilities")
    return logs(output), last


def _layer_of(model, tensor):
    for layer in reversed(getattr(model, "layers", [])):
        try:
            if layer.output is tensor:
                return layer
        except (AttributeError, ValueError):
            continue
    return None


def _activation(layer):
    if isinstance(layer, keras.layers.Softmax):
        return "softmax" if layer.axis in (-1, None) else None
    if not isinstance(
        layer,
        keras.layers.Dense
        | keras.layers.Conv1D
        | keras.layers.Conv2D
        | keras.layers.Conv3D
        | keras.layers.Activation,
    ):
        return None
    return getattr(layer.activation, "__name__", None)


def _without_activation(layer):
    config = {**layer.get_config(), "activation": "linear"}
    config["name"] = f"{layer.name}_logits"
    linear = type(layer).from_config(config)
    linear.build(layer.input.shape)
    linear.set_weights(layer.get_weights())
    return linear


def _features(model, layer, name):
    if name is not None:
        return model.get_layer(name).output
    if layer is None:
        raise ValueError(
            "The layer of the features was not found; name it by "
            f"`features=`. Received: {[x.name for x in model.layers]}"
        )
    return layer.input


def numpy_batches(data):
    """Batches of a data set, a `tf.data` one included, as NumPy arrays."""
    indexable = hasattr(data, "__len__") and hasattr(data, "__getitem__")
    batches = map(data.__getitem__, range(len(data))) if indexable else data
    for batch in batches:
        yield keras.tree.map_structure(keras.ops.convert_to_numpy, batch)


def _as_list(found):
    return list(found) if isinstance(found, list | tuple) else [found]
