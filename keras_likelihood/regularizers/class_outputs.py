"""What a classifier says of examples, beside their classes, as NumPy."""

import numpy as np

from keras_likelihood.likelihoods.softmax import Softmax


def only_softmax(outcomes):
    """The `Softmax` of a model that has nothing else, or `None`.

    Args:
        outcomes: list of `(distribution, alone, weight)`, one for each loss.
    """
    distribution, alone, weight = outcomes[0]
    is_only = len(outcomes) == 1 and alone and weight == 1.0
    return (
        distribution if is_only and isinstance(distribution, Softmax) else None
    )


def class_shares(y, shape):
    """Targets as shares of the classes, a matrix.

    Args:
        y: class numbers, or shares of the classes.
        shape: that of the logits, the classes last.

    Returns:
        Array `(examples, classes)`, `None` if a number is not a class.
    """
    classes = shape[-1]
    if y.shape == shape:
        return y.reshape(-1, classes).astype("float64")
    numbers = y.ravel().astype(int)
    if np.any((numbers < 0) | (numbers >= classes)):
        return None
    return np.eye(classes)[numbers]


def mean_of(logits):
    """Probabilities of the classes, the last axis."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
