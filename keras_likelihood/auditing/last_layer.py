"""What a stock model's last layer and loss say about its output."""

import keras

from keras_likelihood.layers.serving import (
    OneVsRestTable,
    SecondClass,
    TemperedProbabilities,
)

_PROBABILITIES = (OneVsRestTable, SecondClass, TemperedProbabilities)
_REGRESSION = ("squared", "absolute", "mse", "mae", "huber", "cosh")


def last_layer_kind(model) -> str | None:
    """`"softmax"`, `"sigmoid"`, `"linear"`, or `None` if unrecognised."""
    layer = _last_layer(model)
    if isinstance(layer, keras.layers.Softmax):
        return "softmax" if layer.axis in (-1, None) else None
    if isinstance(layer, _PROBABILITIES):
        return "softmax"
    name = getattr(getattr(layer, "activation", None), "__name__", None)
    return name if name in ("softmax", "sigmoid", "linear") else None


def _last_layer(model):
    outputs = getattr(model, "outputs", None) or []
    if len(outputs) != 1:
        return None
    # A model inside a model has its own output, not the one it made there.
    if isinstance(model.layers[-1], keras.Model):
        return _last_layer(model.layers[-1])
    for layer in reversed(model.layers):
        try:
            if layer.output is outputs[0]:
                return layer
        except (AttributeError, ValueError):
            continue
    return None


def task_of_loss(loss) -> str | None:
    """The task a compiled Keras loss is of, if its name tells."""
    if loss is None or isinstance(loss, dict | list | tuple):
        return None
    name = loss if isinstance(loss, str) else None
    name = name or getattr(loss, "__name__", type(loss).__name__)
    name = name.lower()
    if "crossentropy" in name or "cross_entropy" in name:
        return "classification"
    if any(word in name for word in _REGRESSION):
        return "regression"
    return None
