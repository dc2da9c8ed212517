"""Checks for parameters that are not trained or have not changed."""

from collections.abc import Iterator

import keras
import numpy as np

from keras_likelihood.diagnosis.diagnosis import Finding
from keras_likelihood.layers import PredictedParameter
from keras_likelihood.reading.reading import parameter_layers


def check_training(model, outputs) -> Iterator[Finding]:
    """Findings about whether the parameters are and were trained."""
    trained = {id(v) for v in model.trainable_variables}
    steps = _steps(model)
    for output in outputs:
        # The loss does not learn what a head predicts.
        count = sum(p.source == "predicted" for p in output.parameters)
        for name, layer in output.loss.learned_beside(count).items():
            yield from _check_layer(name, layer, trained, steps, output)
        for name, data in output.data_parameters.items():
            yield from _check_rows(name, data, steps)
    for name, layer in parameter_layers(model):
        yield from _check_layer(name, layer, trained, steps)


def _steps(model):
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return 0
    return int(keras.ops.convert_to_numpy(optimizer.iterations))


def _check_layer(name, layer, trained, steps, output=None):
    if not layer.built:
        return
    evidence = {"steps": steps, "value": _typical_value(layer)}
    if not any(id(v) in trained for v in layer.variables):
        yield _untrained(name, evidence, output)
    elif not _has_moved(layer):
        yield _never_moved(name, evidence, steps)


def _untrained(name, evidence, output):
    if output is not None:
        return Finding(
            "untrained_parameter",
            f"The {name}{output.title} belongs to the loss, and this model "
            "does not train its loss, so it stays where it started.",
            evidence,
            "Make the model a `kl.LikelihoodModel` (or "
            "`kl.LikelihoodModel.from_model(model)`) and compile again, or "
            f"fix the {name} by a number.",
        )
    return Finding(
        "untrained_parameter",
        f"The layer that gives the {name} is not trainable, so it stays as "
        "it is.",
        evidence,
        "Set `trainable = True` on the head and compile again, unless it was "
        "frozen on purpose.",
    )


def _never_moved(name, evidence, steps):
    if steps == 0:
        return Finding(
            "not_fitted",
            f"The {name} is at its initial value: the model has not been "
            "trained since it was compiled.",
            evidence,
            "Call `fit` first.",
        )
    return Finding(
        "never_moved",
        f"The {name} is exactly at its initial value after training: no "
        "gradient reaches it.",
        evidence,
        "Check that the loss reads it: it should be left out of the loss's "
        "arguments, and the head be the model's output. If the learning "
        "rate is tiny, raise it or `learning_rate_multiplier`.",
    )


def _has_moved(layer):
    if not isinstance(layer, PredictedParameter):
        value = keras.ops.convert_to_numpy(layer.value())
        start = np.resize(np.float32(layer.start), value.shape)
        return not np.allclose(value, start, rtol=1e-6, atol=0)
    kernel = keras.ops.convert_to_numpy(layer.kernel)
    bias = keras.ops.convert_to_numpy(layer.control(layer.bias))
    start = np.resize(layer.constraint.inverse(layer.initial), bias.shape)
    return bool(kernel.any()) or not np.allclose(bias, start, atol=1e-6)


def _typical_value(layer):
    if isinstance(layer, PredictedParameter):
        value = layer.constraint(layer.control(layer.bias))
    else:
        value = layer.value()
    return float(np.mean(keras.ops.convert_to_numpy(value)))


def _check_rows(name, data, steps):
    values = data.values().reshape(data.num_examples, -1)
    start = np.resize(data.start, values.shape[1:])
    still = np.all(np.isclose(values, start, rtol=1e-6), axis=1)
    share = float(still.mean())
    if share <= 0.05:
        return
    evidence = {"steps": steps, "rows": data.num_examples, "share": share}
    if share == 1 and steps == 0:
        yield _never_moved(f"data {name}", evidence, steps)
        return
    yield Finding(
        "rows_never_moved",
        f"{share:.0%} of the examples still have the initial {name}: they "
        "were never in a batch, or have weight zero.",
        evidence,
        "Train for a whole epoch, and check that `num_examples` and the "
        "index given to `kl.indexed` are those of the training set.",
    )
