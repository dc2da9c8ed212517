"""From a model and data to what went wrong."""

import keras

from keras_likelihood.diagnosis.data_checks import (
    check_finite,
    check_logits,
    check_outliers,
    check_targets,
)
from keras_likelihood.diagnosis.diagnosis import Diagnosis
from keras_likelihood.diagnosis.range_checks import check_ranges
from keras_likelihood.diagnosis.reading import read_outputs
from keras_likelihood.diagnosis.training_checks import check_training


def diagnose(model: keras.Model, x, y, *, batch_size: int = 256) -> Diagnosis:
    """Says why a likelihood parameter ran away or never moved.

    It predicts once, changes nothing, and looks for NaN and infinity;
    parameters that nobody trains or that never moved; a collapsed scale; a
    saturated constraint; a scale that does not fit the errors; targets in
    unsuitable units; probabilities where logits belong; and few examples that
    rule the loss.

    ```python
    model.fit(x, y)
    print(kl.diagnose(model, x, y))
    ```

    Findings are hints, with the numbers they rest on: thresholds are rules
    of thumb. Where numbers are not finite, nothing else is looked for in the
    values.

    Args:
        model: a compiled `LikelihoodModel`, or a stock `keras.Model` with a
            likelihood loss.
        x: inputs `(n, ...)`, as for `predict`.
        y: targets `(n, ...)`, plain or from `kl.indexed`; a dict for a dict
            of outputs.
        batch_size: of the prediction. Defaults to 256.

    Returns:
        A `Diagnosis`: false if nothing was found, else a list of findings,
        the gravest first.
    """
    outputs = read_outputs(model, x, y, batch_size)
    findings = [*check_finite(model, x, outputs)]
    is_finite = not findings
    findings += check_training(model, outputs)
    if is_finite:
        checks = check_logits, check_ranges, check_targets, check_outliers
        for check in checks:
            for output in outputs:
                findings += check(output)
    return Diagnosis(findings)
