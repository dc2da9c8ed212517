"""Checks of the targets that `fit` is given."""

import numpy as np

from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.models.compiled_losses import entry


def check_training_targets(
    losses, outputs, y=None, sample_weight=None, **others
):
    """Raises an error for impossible targets before the training starts.

    Arrays are checked as a whole, in one pass over the labels. Errors in other
    kinds of data show in the loss of the first batch.

    Args:
        losses: the `CompiledLosses` of the model.
        outputs: symbolic outputs of the model, or `None` if not known yet.
        y, sample_weight: as given to `fit`.
        **others: further arguments of `fit`, which are ignored.
    """
    if y is None:
        return
    y, sample_weight, _ = split_index(y, sample_weight)
    for key, loss in losses.by_key.items():
        prediction, _ = split_output(entry(outputs, key))
        if hasattr(prediction, "shape"):
            _check_labels(
                loss.likelihood,
                tuple(prediction.shape),
                entry(y, key),
                entry(sample_weight, key),
            )


def _check_labels(likelihood, shape, y, weight):
    # Sequences may be masked, and only the model knows where.
    bounds = int(likelihood.takes_bounds)
    if not isinstance(y, np.ndarray) or y.ndim > 2 + bounds or not len(y):
        return
    if weight is not None:
        counted = np.asarray(weight)
        if counted.shape[:1] != y.shape[:1]:
            return
        y = y[counted.reshape(len(y), -1).any(axis=1)]
    likelihood.check_targets(y, shape)
