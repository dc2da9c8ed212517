"""Checks of the targets that `fit` is given."""

import numpy as np

from keras_likelihood.data_parameters.indexed import INDEX, split_index
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.models.compiled_losses import entry


def check_training_targets(
    losses, outputs, x=None, y=None, sample_weight=None, **_
):
    """Refuses what cannot be right before training starts.

    Arrays are looked at whole, in one pass over the labels. Of other data the
    structure is checked where it is known without reading them.

    Args:
        losses: the `CompiledLosses` of the model.
        outputs: symbolic outputs of the model, or `None` if not known yet.
        x, y, sample_weight: as given to `fit`.
    """
    names = [n for v in losses.by_key.values() for n in v.data_parameters]
    if y is None:
        _check_index_of_dataset(names, x)
        return
    y, sample_weight, index = split_index(y, sample_weight)
    if index is None:
        _refuse_missing_index(names)
    for key, loss in losses.by_key.items():
        prediction, _ = split_output(entry(outputs, key))
        if hasattr(prediction, "shape"):
            _check_labels(
                loss.likelihood,
                tuple(prediction.shape),
                entry(y, key),
                entry(sample_weight, key),
            )


def _check_index_of_dataset(names, x):
    spec = getattr(x, "element_spec", None)
    if isinstance(spec, tuple) and len(spec) > 1:
        if not (isinstance(spec[1], dict) and INDEX in spec[1]):
            _refuse_missing_index(names)


def _refuse_missing_index(names):
    for name in names:
        raise ValueError(
            f"Training with a data {name} needs to know which example is "
            "which: give `fit` the targets as `kl.indexed(y)` or the dataset, "
            "before it is shuffled, as `kl.indexed(dataset)`. "
            "Received: targets without an index"
        )


def _check_labels(likelihood, shape, y, weight):
    # Sequences may be masked, and only the model knows where.
    if not isinstance(y, np.ndarray) or y.ndim > 2 or not len(y):
        return
    if weight is not None:
        counted = np.asarray(weight)
        if counted.shape[:1] != y.shape[:1]:
            return
        y = y[counted.reshape(len(y), -1).any(axis=1)]
    likelihood.check_targets(y, shape)
