"""From a model and data to what went wrong."""

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
from keras_likelihood.diagnosis.range_checks import check_ranges
from keras_likelihood.diagnosis.training_checks import check_training
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading import load_model, read_model


def diagnose(model: keras.Model, x, y, *, batch_size: int = 256) -> Diagnosis:
    """Says why a likelihood parameter ran away or never moved.

    It predicts once, changes nothing, and looks for NaN and infinity;
    parameters that nobody trains or that never moved; a collapsed scale; a
    saturated constraint; a scale that does not fit the errors; targets in
    unsuitable units; labels outside their range; probabilities where logits
    belong; and few examples that rule the loss.

    ```python
    model.fit(x, y)
    print(kl.diagnose(model, x, y))
    ```

    Findings are hints, with the numbers they rest on: thresholds are rules
    of thumb. Where numbers are not finite, nothing else is looked for in the
    values.

    Args:
        model: a compiled `LikelihoodModel`, the path of its `.keras` file, or
            a stock `keras.Model` with a likelihood loss.
        x: inputs `(n, ...)`, as for `predict`.
        y: targets `(n, ...)`, plain or from `kl.indexed`; a dict for a dict
            of outputs.
        batch_size: of the prediction. Defaults to 256.

    Returns:
        A `Diagnosis`: false if nothing was found, else a list of findings,
        the gravest first.
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
        # The loss of labels outside their range is no number to look at.
        for check in checks[: -1 if wrong else None]:
            for output in outputs:
                findings += check(output)
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
        if len(output.y) != shape[0] or len(output.y) == 0:
            raise ValueError(
                "`y` must have a target for every example. "
                f"Received: {len(output.y)} targets for {shape[0]} examples"
            )
    return outputs
