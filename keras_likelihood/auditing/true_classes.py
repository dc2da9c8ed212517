"""Which class each example truly has, by what a training remembers of it."""

import numpy as np

SHARPNESS = 3.4
"""Power of the remembered probabilities: see docs/studies/label_noise.md."""
_ROUNDS = 60


def true_class_probabilities(y, memory, power=SHARPNESS) -> np.ndarray:
    """Probabilities of the true classes, from given labels and a memory.

    The memory m of an example is what a training believed of it on average.
    A label is drawn from the row of a confusion matrix C that belongs to the
    true class, so by Bayes' rule

        P(true class is k) ~ m_k^power C[k, y]

    A memory is less sure than it should be where every input shows its class,
    as most photographs do, hence a power above 1. Where classes overlap, the
    power 1 takes the memory at its word. C is not known. It is the one that
    makes the given labels most probable, found by expectation maximisation
    (Dawid and Skene, 1979). One made-up observation in each of its cells keeps
    rare classes away from zero.

    Args:
        y: given class numbers `(n,)`.
        memory: `(n, classes)`, entries `>= 0`; see `NoisyLabels`.
        power: of the remembered probabilities, `> 0`.

    Returns:
        `(n, classes)`, rows that sum to one.
    """
    y, memory = np.asarray(y), np.asarray(memory, "float64")
    classes = memory.shape[1]
    left = np.clip(1 - memory.sum(axis=1, keepdims=True), 0, 1)
    prior = np.clip(memory + left / classes, 1e-4, 1) ** power
    prior /= prior.sum(axis=1, keepdims=True)
    rows = [np.flatnonzero(y == k) for k in range(classes)]
    confusion = 0.8 * np.eye(classes) + 0.2 / classes
    for _ in range(_ROUNDS):
        confusion /= confusion.sum(axis=1, keepdims=True)
        found = prior * confusion.T[y]
        found /= found.sum(axis=1, keepdims=True)
        confusion = 1 + np.stack([found[r].sum(axis=0) for r in rows], axis=1)
    return found


def expected_wrong(y, truth) -> float:
    """Expected number of wrong labels.

    Args:
        y: given class numbers `(n,)`.
        truth: what `true_class_probabilities` returned.
    """
    return float(np.sum(1 - truth[np.arange(len(y)), y]))
