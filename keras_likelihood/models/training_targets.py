"""Checks of the targets that `fit`, `evaluate` and their kind are given."""

import keras
import numpy as np

from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.models.compiled_losses import entry


def check_targets(losses, outputs, y, sample_weight=None):
    """Raises an error for impossible targets before the first step.

    Arrays are checked as a whole, in one pass over the labels. Errors in other
    kinds of data, and in sequences that may be masked, show in the loss.

    Args:
        losses: the `CompiledLosses` of the model.
        outputs: symbolic outputs of the model, or `None` if not known yet.
        y, sample_weight: as given to `fit`.
    """
    if y is None:
        return
    y, sample_weight, _ = split_index(y, sample_weight)
    for key, loss in losses.by_key.items():
        prediction, _ = split_output(entry(outputs, key))
        if len(getattr(prediction, "shape", ())) != 2:
            continue
        labels, weight = entry(y, key), entry(sample_weight, key)
        if hasattr(labels, "__array__") and np.size(labels):
            labels = keras.ops.convert_to_numpy(labels)
            _check_labels(loss, tuple(prediction.shape), labels, weight)


def _check_labels(loss, shape, y, weight):
    likelihood = loss.likelihood
    counts = np.ones(len(y), bool)
    if weight is not None:
        weight = np.asarray(weight)
        if weight.shape[:1] != y.shape[:1]:
            return
        # A row of several numbers is checked if any of them counts.
        counts = (weight.reshape(len(y), -1) != 0).any(axis=1)
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        counts &= (y.reshape(len(y), -1) != ignored).any(axis=1)
    y = y[counts]
    if y.dtype.kind == "f" and not likelihood.takes_bounds:
        bad = ~np.isfinite(y)
        if weight is not None and weight.shape == bad.shape:
            bad &= weight[counts] != 0
        if bad.any():
            row = np.flatnonzero(counts)[bad.nonzero()[0][0]]
            raise ValueError(
                f"Targets of {likelihood.__name__} must be finite numbers, "
                f"except those of weight 0. Received: {y[bad][0]} in row {row}"
            )
    if len(y):
        likelihood.check_targets(y, shape)
