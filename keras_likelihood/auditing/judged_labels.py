"""Class labels judged by what a classifier says."""

import keras
import numpy as np

from keras_likelihood.auditing.label_issues import find_label_issues
from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.auditing.scores import score_of
from keras_likelihood.reading.targets import as_labels


def judge_labels(reading, y, data_parameter) -> AuditReport:
    """Judges class labels under the class probabilities.

    Args:
        reading: a `Reading` of a classifier.
        y: labels, see `as_labels`.
        data_parameter: as in `audit`.
    """
    y = as_labels(y, reading.prediction.shape)
    # What an example learned of its own label would excuse it.
    shared = reading.without_data_parameters()
    p = keras.ops.convert_to_numpy(shared.distribution().mean())
    if p.shape[1] == 1:
        p = np.concatenate([1 - p, p], axis=1)
    nll = shared.nll(y)
    score = score_of(reading, data_parameter, nll)
    temperature = score.values if score.learned else None
    issues = find_label_issues(y, p, temperature)
    columns = {"p(given)": np.exp(-nll), "p(predicted)": p.max(axis=1)}
    rule = _rule(score.learned)
    return score.report("classification", issues, nll, columns, rule)


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
