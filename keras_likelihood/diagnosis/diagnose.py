"""Diagnoses a trained model."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.diagnosis.data_checks import (
    check_finite,
    check_labels,
    check_logits,
    check_outliers,
    check_targets,
)
from keras_likelihood.diagnosis.diagnosis import Diagnosis
from keras_likelihood.diagnosis.parameter_checks import (
    check_mean,
    check_ranges,
    check_training,
)
from keras_likelihood.likelihoods.checks import as_numbers, check_argument
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading import load_model, read_model


def diagnose(
    model: keras.Model,
    x: Array,
    y: dict[str, Array] | Array,
    *,
    batch_size: int = 256,
) -> Diagnosis:
    """Diagnoses problems of likelihood parameters and of the data.

    The checks look for NaN and infinity, parameters that are not trained or
    never changed, a collapsed scale, a saturated constraint, a scale that does
    not match the errors, and errors that the scale treats as noise although the
    prediction could explain them. They also look for targets in unsuitable
    units, labels out of range, probabilities in place of logits, and a few
    examples that dominate the loss.

    ```python
    model.fit(x, y)
    print(kl.diagnose(model, x, y))
    ```

    Findings are hints, with the numbers that they are based on. The thresholds
    are rules of thumb.

    Args:
        model: a compiled `LikelihoodModel`, the path of its `.keras` file, or
            a stock `keras.Model` with a likelihood loss.
        x: inputs `(n, ...)`, as for `predict`.
        y: targets `(n, ...)`, plain or from `kl.indexed`; a dict for a dict
            of outputs.
        batch_size: the batch size for prediction. Defaults to 256.

    Returns:
        A `Diagnosis`: a list of findings, most serious first.
    """
    model = load_model(model)
    for leaf in keras.tree.flatten(split_index(y)[0]):
        as_numbers(leaf)
    outputs = _with_targets(model, x, y, batch_size)
    findings = [*check_finite(model, x, outputs)]
    is_finite = not findings
    findings += check_training(model, outputs)
    if is_finite:
        wrong = [f for output in outputs for f in check_labels(output)]
        findings += wrong
        checks = [check_logits, check_ranges, check_targets, check_outliers]
        # The loss of labels out of range is meaningless.
        for check in checks[: -1 if wrong else None]:
            for output in outputs:
                findings += check(output)
        for output in outputs:
            findings += check_mean(model, x, output, batch_size)
    return Diagnosis(findings)


def _with_targets(
    model: Any, x: Array, y: dict[str, Array] | Array, batch_size: int
) -> list[Any]:
    """Readings of the outputs that have a likelihood loss, with their `y`."""
    outputs = [
        reading
        for reading in read_model(model, x, batch_size=batch_size)
        if isinstance(reading.loss, LikelihoodLoss)
    ]
    allowed = "a likelihood loss, such as `kl.losses.NormalLoss()`"
    loss = getattr(model, "loss", None)
    check_argument("model.loss", loss, outputs, allowed)
    y = split_index(y)[0]
    for output in outputs:
        of_output = output.key and isinstance(y, dict)
        output.y = np.asarray(y[output.key] if of_output else y)
        shape = output.prediction.shape
        if output.y.shape == shape[:-1] and shape[-1] == 1:
            output.y = output.y[..., None]
        count, allowed = len(output.y), f"targets of {shape[0]} examples"
        check_argument("y", count, 0 < count == shape[0], allowed)
    return outputs
