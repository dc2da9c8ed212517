"""Checks for parameters that are not trained or have not changed."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.ops import convert_to_numpy

from keras_likelihood.diagnosis.diagnosis import Finding
from keras_likelihood.layers import PredictedParameter
from keras_likelihood.reading.reading import parameter_layers


def check_training(model: Any, outputs: list[Any]) -> Iterator[Finding]:
    """Findings about parameters that are not or were not trained."""
    trained = {id(v) for v in model.trainable_variables}
    steps = int(convert_to_numpy(getattr(model.optimizer, "iterations", 0)))
    for output in outputs:
        # The loss does not learn parameters that a head predicts.
        count = sum(p.source == "predicted" for p in output.parameters)
        for name, layer in output.loss.learned_beside(count).items():
            yield from _check_layer(name, layer, trained, steps, output)
        for name, data in output.data_parameters.items():
            yield from _check_rows(name, data, steps)
    for name, layer in parameter_layers(model):
        yield from _check_layer(name, layer, trained, steps)


def _check_layer(
    name: str, layer: Any, trained: set[int], steps: int, output: Any = None
) -> Iterator[Finding]:
    if not layer.built:
        return
    value, has_moved = _value(layer)
    evidence = {"steps": steps, "value": value}
    if any(id(v) in trained for v in layer.variables):
        if not has_moved:
            yield _never_moved(name, evidence)
    elif output is not None:
        yield Finding(
            "untrained_parameter",
            f"The {name}{output.title} belongs to the loss, and this model "
            "does not train its loss, so it keeps its initial value.",
            evidence,
            "Make the model a `kl.LikelihoodModel` (or "
            "`kl.LikelihoodModel.from_model(model)`) and compile again, or "
            f"set the {name} to a number.",
        )
    else:
        yield Finding(
            "untrained_parameter",
            f"The layer that predicts the {name} is not trainable, so it does "
            "not change.",
            evidence,
            "Set `trainable = True` on the head and compile again, unless it "
            "was frozen on purpose.",
        )


def _value(layer: Any) -> tuple[float, bool]:
    """Mean value of a parameter, and whether its initial value has changed."""
    if isinstance(layer, PredictedParameter):
        value = layer.constraint(layer.read(layer.bias))
        start, has_kernel = layer.initial, convert_to_numpy(layer.kernel).any()
    else:
        value, start, has_kernel = layer.value(), layer.start, False
    value = convert_to_numpy(value)
    has_moved = not np.allclose(value, np.resize(start, value.shape), 1e-6)
    return float(np.mean(value)), has_kernel or has_moved


def _never_moved(name: str, evidence: dict[str, int | float]) -> Finding:
    if evidence["steps"] == 0:
        words = "is at its initial value: the model was not trained."
        return Finding(
            "not_fitted", f"The {name} {words}", evidence, "Call `fit` first."
        )
    return Finding(
        "never_moved",
        f"The {name} is exactly at its initial value after training: no "
        "gradient reaches it.",
        evidence,
        "Check that the loss uses it: it must not be an argument of the loss, "
        "and the head must be the output of the model. If the learning rate "
        "is tiny, raise it or `learning_rate_multiplier`.",
    )


def _check_rows(name: str, data: Any, steps: int) -> Iterator[Finding]:
    values = data.values().reshape(data.num_examples, -1)
    start = np.resize(data.start, values.shape[1:])
    share = float(np.all(np.isclose(values, start, rtol=1e-6), axis=1).mean())
    evidence = {"steps": steps, "rows": data.num_examples, "share": share}
    if share == 1 and steps == 0:
        yield _never_moved(f"data {name}", evidence)
    elif share > 0.05:
        yield Finding(
            "rows_never_moved",
            f"{share:.0%} of the examples still have the initial {name}: they "
            "were never in a batch, or have weight zero.",
            evidence,
            "Train for a whole epoch, and check that `num_examples` and the "
            "index given to `kl.indexed` are those of the training set.",
        )
