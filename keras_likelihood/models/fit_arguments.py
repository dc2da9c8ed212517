"""Checks and standardizes the arguments of `fit`, and builds the model."""

import contextlib
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.training_rows import Rows
from keras_likelihood.backend.types import Shape
from keras_likelihood.data_parameters.indexed import (
    INDEX,
    TARGET,
    has_index,
    indices,
)
from keras_likelihood.likelihoods.output import (
    align_target,
    align_weight,
    split_output,
)
from keras_likelihood.losses.batch import is_missing


def check_targets(
    compiled: Any, outputs: Any, y: Any, sample_weight: Any = None
) -> None:
    """Raises an error for impossible targets before the first step.

    Only arrays are checked, in one pass over the labels. In other data, and in
    sequences that may be masked, impossible targets make the loss NaN.
    """
    predictions = compiled.outputs.of_model(outputs)
    targets = compiled.outputs.targets(y, sample_weight)
    for key, loss in compiled.by_key.items():
        prediction, _ = split_output(predictions[key])
        labels, weight, _ = targets[key]
        if hasattr(labels, "__array__") and np.size(labels):
            labels, weight = keras.tree.map_structure(_numpy, (labels, weight))
            # Keras raises the error for another length.
            if weight is None or len(weight) == len(labels):
                _check_labels(loss, tuple(prediction.shape), labels, weight)


def _numpy(value: Any) -> Any:
    return value if value is None else keras.ops.convert_to_numpy(value)


def _check_labels(loss: Any, shape: Shape, y: Any, weight: Any) -> None:
    likelihood, rows = loss.likelihood, len(y)
    y = align_target(likelihood, y, shape)
    if weight is not None:
        weight = align_weight(likelihood, weight, shape)
    if len(shape) != 2:
        return
    counts = np.ones(rows, bool)
    if weight is not None:
        # A row is checked if any of its weights is not 0.
        counts = (weight.reshape(rows, -1) != 0).any(axis=1)
    if loss.missing is not None:
        known = ~is_missing(y, loss.missing)
        # A vector with a missing entry is missing.
        every = np.all if likelihood.event_rank else np.any
        counts &= every(known.reshape(rows, -1), axis=1)
        if counts.any():
            y = np.where(known, y, y[known][0])
    y = y[counts]
    if y.dtype.kind == "f" and not likelihood.takes_bounds:
        bad = ~np.isfinite(y)
        if weight is not None and weight.shape == bad.shape:
            bad &= weight[counts] != 0
        if bad.any():
            row = np.flatnonzero(counts)[bad.nonzero()[0][0]]
            raise ValueError(
                f"Targets of {likelihood.__name__} must be finite numbers, "
                f"except at weight 0. Received: {y[bad][0]} in row {row}"
            )
    if len(y):
        likelihood.check_targets(y, shape)


def standardize_weights(
    x: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
) -> tuple[Any, ...]:
    """`(x, y, sample_weight, class_weight)` in the form that Keras expects.

    Keras needs weights in the structure of the targets, which are dicts if they
    come from `kl.indexed`.
    """
    if class_weight is not None and indices(x, y):
        raise ValueError(
            "`class_weight` must be None with `kl.indexed`. Pass the weights "
            "of the examples as `sample_weight`. "
            f"Received: class_weight={class_weight}"
        )
    # Keras only repeats an array over the structure if it has one axis.
    by_output = isinstance(sample_weight, dict | list | tuple) or (
        len(getattr(sample_weight, "shape", ())) > 1
    )
    if by_output and has_index(y):
        # The weights of the index are unused.
        unused = np.zeros(len(y[INDEX]), "float32")
        sample_weight = {INDEX: unused, TARGET: sample_weight}
    return x, y, sample_weight, class_weight


def refuse_new_rows(y: Any) -> None:
    """Raises an error for validation targets with the default numbers."""
    for index in map(keras.ops.convert_to_numpy, indices(None, y) or ()):
        if np.array_equal(index, np.arange(len(index))):
            raise ValueError(
                "The rows of a `DataParameter` belong to the training "
                "examples. Pass the targets of other examples without an "
                "index, or the numbers of training rows as "
                "`kl.indexed(y, index=rows)`. Received: `validation_data` "
                f"with the rows 0 to {len(index) - 1}"
            )


def build_model(model: Any, x: Any) -> None:
    """Builds a model that has not been called, from the inputs of `fit`.

    TensorFlow would build it inside the first step, after the callbacks have
    looked for its weights. Generators are not read, because reading them would
    consume their rows.
    """
    if model.built or x is None:
        return
    rows = Rows(x)
    if rows.can_be_read:
        with _scope(model):
            model(rows.draw(1)["x"])


def build_optimizer(model: Any) -> None:
    """Builds the optimizer of a built model, unless it is built already.

    TensorFlow traces a step twice if the step creates variables. With a built
    optimizer it traces once, and the first `fit` starts in half the time.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or optimizer.built or not model.built:
        return
    with _scope(model):
        optimizer.build(model.trainable_variables)


def _scope(model: Any) -> Any:
    strategy = getattr(model, "distribute_strategy", None)
    return strategy.scope() if strategy else contextlib.nullcontext()
