"""Finds out what went wrong with a model."""

import keras
import numpy as np

from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.diagnosis.data_checks import (
    check_finite,
    check_labels,
    check_logits,
    check_outliers,
    check_targets,
)
from keras_likelihood.diagnosis.diagnosis import Diagnosis
from keras_likelihood.diagnosis.range_checks import check_mean, check_ranges
from keras_likelihood.diagnosis.training_checks import check_training
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading import load_model, read_model


def diagnose(model: keras.Model, x, y, *, batch_size: int = 256) -> Diagnosis:
    """Says why a likelihood parameter grew too far or never changed.

    The function predicts and changes nothing. It looks for NaN and infinity,
    for parameters that nothing trains or that never changed, for a collapsed
    scale, for a saturated constraint, for a scale that does not fit the errors
    and for one that takes for noise what the prediction could explain. It also
    looks for targets in unsuitable units, labels outside of their range,
    probabilities in place of logits, and few examples that make most of the
    loss.

    ```python
    model.fit(x, y)
    print(kl.diagnose(model, x, y))
    ```

    Findings are hints. Each has the numbers that it is based on. The
    thresholds are rules of thumb. If numbers are not finite, the values are
    not checked further.

    Args:
        model: a compiled `LikelihoodModel`, the path of its `.keras` file, or
            a stock `keras.Model` with a likelihood loss.
        x: inputs `(n, ...)`, as for `predict`.
        y: targets `(n, ...)`, plain or from `kl.indexed`; a dict for a dict
            of outputs.
        batch_size: the batch size of the prediction. Defaults to 256.

    Returns:
        A `Diagnosis`. It is false if nothing was found. Otherwise it is a list
        of findings, the most serious first.
    """
    model = load_model(model)
    outputs = _with_targets(model, x, y, batch_size)
    findings = [*check_finite(model, x, outputs)]
    is_finite = not findings
    findings += check_training(model, outputs)
    if is_finite:
        wrong = [f for output in outputs for f in check_labels(output)]
        findings += wrong
        checks = [check_logits, check_ranges, check_targets, check_outliers]
        # The loss of labels outside of their range has no meaning.
        for check in checks[: -1 if wrong else None]:
            for output in outputs:
                findings += check(output)
        for output in outputs:
            findings += check_mean(model, x, output, batch_size)
    return Diagnosis(findings)


def _with_targets(model, x, y, batch_size):
    """Readings of the outputs that have a likelihood loss, with their `y`."""
    outputs = [
        reading
        for reading in read_model(model, x, batch_size=batch_size)
        if isinstance(reading.loss, LikelihoodLoss)
    ]
    if not outputs:
        raise ValueError(
            "`model` must be compiled with a likelihood loss, such as "
            "`kl.losses.NormalLoss()`. Received: "
            f"loss={getattr(model, 'loss', None)}"
        )
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
