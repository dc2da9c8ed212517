"""Class labels judged by what a classifier says."""

import numpy as np

from keras_likelihood.auditing.findings import Findings
from keras_likelihood.auditing.inputs import as_classes
from keras_likelihood.auditing.label_issues import find_label_issues
from keras_likelihood.auditing.scores import score_of


def judge_labels(reading, y, data_parameter) -> Findings:
    """Judges class labels under the class probabilities.

    Args:
        reading: a `Reading` of a classifier.
        y: labels, see `as_classes`.
        data_parameter: as in `audit`.
    """
    logs = log_probabilities(reading)
    y = as_classes(y, reading.classes)
    nll = -logs[np.arange(len(y)), y]
    score = score_of(reading, data_parameter, nll)
    temperature = score.values if score.learned else None
    issues = find_label_issues(y, np.exp(logs), temperature)
    columns = {
        "p(given)": np.exp(-nll),
        "p(predicted)": np.exp(logs.max(axis=1)),
    }
    return Findings(score, issues, nll, columns, _rule(score.learned))


def log_probabilities(reading) -> np.ndarray:
    """Logarithms of the class probabilities, `(n, classes)`."""
    logits = reading.prediction / reading.parameters.get("temperature", 1.0)
    if logits.shape[1] == 1:
        logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _rule(learned):
    order = (
        "the learned temperature, the highest first"
        if learned
        else "the probability of the given label, the lowest first"
    )
    return (
        "A label is suspected if another class is the most probable one, and "
        "as probable as that class is on average where it is the given label "
        f"(confident learning). The list is in the order of {order}."
    )
