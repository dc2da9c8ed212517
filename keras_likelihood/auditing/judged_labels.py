"""Class labels judged by what a classifier says."""

import keras
import numpy as np

from keras_likelihood.auditing.label_issues import find_label_issues
from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.auditing.scores import Score, remembered, score_of
from keras_likelihood.auditing.true_classes import (
    expected_wrong,
    true_class_probabilities,
)
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
    memory = remembered(reading, data_parameter, len(y))
    if memory is not None:
        return _judge_by_memory(y, p, nll, memory)
    score = score_of(reading, data_parameter, nll)
    temperature = score.values if score.learned else None
    issues = find_label_issues(y, p, temperature)
    columns = {"p(given)": np.exp(-nll), "p(predicted)": p.max(axis=1)}
    rule = _rule(score.learned)
    return score.report("classification", issues, nll, columns, rule)


def _judge_by_memory(y, p, nll, memory):
    truth = true_class_probabilities(y, memory)
    rows = np.arange(len(y))
    quality = truth[rows, y]
    issues = {
        "is_label_issue": quality < 0.5,
        "label_quality": quality,
        "given_label": y,
        "predicted_label": truth.argmax(axis=1),
    }
    score = Score(
        "doubt of the label",
        "Minus the logarithm of two probabilities of the given label: the one "
        "that the network gives it now, and the one that it gave it on "
        "average while it trained.",
        nll - np.log(np.clip(memory[rows, y], 1e-6, 1)),
        learned=True,
    )
    wrong = expected_wrong(y, truth)
    overlapping = true_class_probabilities(y, memory, power=1.0)
    fewer = min(expected_wrong(y, overlapping), wrong)
    rule = (
        "A label is suspected if the training's memory of the example makes "
        "it more probable that the label is wrong than that it is right. "
        f"In all, {wrong:,.0f} of the {len(y):,} labels are expected to be "
        "wrong if every input shows its class, as most photographs do. If "
        "classes overlap, an unusual example looks like a wrong label: then "
        f"{fewer:,.0f} are."
    )
    columns = {"p(given)": np.exp(-nll), "p(label is right)": quality}
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
