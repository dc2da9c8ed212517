"""Finds wrong labels from the predictions or the training of a classifier."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array


def find_label_issues(
    y: Any, probabilities: Any, temperature: Any = None
) -> dict[str, Array]:
    """Finds suspected label errors, with the column names of cleanlab.

    A label is suspected if the most probable class is another one, and if the
    classifier is confident of another class: its probability is at least the
    class's average over the examples with that label (Northcutt, Jiang and
    Chuang, "Confident Learning", 2021).

    Probabilities predicted for the training data are overfit to the labels in
    question. Held-out probabilities find more errors. A temperature learned
    for each training example does not have this problem, so it sets the
    quality if it is given.

    >>> y = np.array([0, 0, 1])
    >>> p = np.array([[0.9, 0.1], [0.1, 0.9], [0.2, 0.8]])
    >>> kl.auditing.find_label_issues(y, p)["is_label_issue"]
    array([False,  True, False])

    Args:
        y: class numbers `(n,)`.
        probabilities: `(n, classes)`.
        temperature: `(n,)`, or `None`.

    Returns:
        A dict of arrays `(n,)`: `is_label_issue` (bool), `label_quality` in
        [0, 1] (low is bad: the probability of the given label, or
        `1 / (1 + temperature)`), `given_label` and `predicted_label`.
    """
    y, p = np.asarray(y), np.asarray(probabilities)
    own, predicted = p[np.arange(len(y)), y], p.argmax(axis=1)
    counts, sums = (np.bincount(y, w, p.shape[1]) for w in (None, own))
    # No example is confidently of a class without examples.
    average = np.where(counts > 0, sums / np.maximum(counts, 1), 2.0)
    # Equality up to rounding: the mean of equal numbers may exceed them.
    confident = np.where(p >= average - 1e-6, p, 0.0)
    is_other = confident.any(axis=1) & (confident.argmax(axis=1) != y)
    quality = own
    if temperature is not None:
        quality = 1 / (1 + np.asarray(temperature, "float64"))
    return issue_columns(is_other & (predicted != y), quality, y, predicted)


def issue_columns(
    is_issue: Array, quality: Array, given: Array, predicted: Array
) -> dict[str, Array]:
    """Dict of arrays `(n,)` with the column names of cleanlab."""
    names = "is_label_issue", "label_quality", "given_label", "predicted_label"
    return dict(zip(names, (is_issue, quality, given, predicted), strict=True))


SHARPNESS = 3.4
"""Power of the remembered probabilities, see docs/studies/label_noise.md."""
_ROUNDS = 60


def true_class_probabilities(
    y: Any, memory: Any, power: float = SHARPNESS
) -> Array:
    """Probabilities of the true classes, from given labels and a memory.

    The memory m of an example is the mean of its predictions during training. A
    label is drawn from the row of a confusion matrix C that belongs to the true
    class, so by Bayes' rule

        P(true class is k) ~ m_k^power C[k, y]

    If every input shows its class, the memory is underconfident, hence a power
    above 1. If classes overlap, a power of 1 is right. C is estimated by
    expectation maximisation (Dawid and Skene, 1979). A pseudocount of 1 in each
    cell keeps rare classes away from zero.
    """
    y, memory = np.asarray(y), np.asarray(memory, "float64")
    classes = memory.shape[1]
    left = np.clip(1 - memory.sum(axis=1, keepdims=True), 0, 1)
    prior = np.clip(memory + left / classes, 1e-4, 1) ** power
    prior /= prior.sum(axis=1, keepdims=True)
    rows = [np.flatnonzero(y == k) for k in range(classes)]
    found: Array = prior
    confusion = 0.8 * np.eye(classes) + 0.2 / classes
    for _ in range(_ROUNDS):
        confusion /= confusion.sum(axis=1, keepdims=True)
        found = prior * confusion.T[y]
        found /= found.sum(axis=1, keepdims=True)
        confusion = 1 + np.stack([found[r].sum(axis=0) for r in rows], axis=1)
    return found
