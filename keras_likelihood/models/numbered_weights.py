"""Sample and class weights beside numbered targets."""

import keras
import numpy as np

from keras_likelihood.data_parameters.numbered_batches import (
    INDEX,
    TARGET,
    carries_index,
)


def standardize_weights(x, y, sample_weight=None, class_weight=None) -> tuple:
    """Arguments of `fit` as Keras understands them with numbered targets.

    Keras gives weights the structure of the targets and takes classes from
    targets that are one array. Targets of `kl.indexed` are neither, so that
    class weights become sample weights here, and sample weights by output
    take the structure of the targets. Anything else is passed on.

    Args:
        x: inputs or a dataset.
        y: targets, or `None` with a dataset.
        sample_weight: as in `fit`.
        class_weight: as in `fit`.

    Returns:
        `(x, y, sample_weight, class_weight)`.
    """
    if class_weight is not None and carries_index(x, y):
        if sample_weight is not None:
            raise ValueError(
                "Give `class_weight` or `sample_weight`, not both. "
                "Received: both"
            )
        if y is None:
            raise ValueError(
                "`class_weight` beside `kl.indexed` is for arrays. Give a "
                "data set of `(x, y, sample_weight)` to `kl.indexed`. "
                f"Received: class_weight with {type(x).__name__}"
            )
        sample_weight = _class_weights(y[TARGET], class_weight)
        class_weight = None
    # Keras repeats an array over the structure if it has one axis only.
    by_output = isinstance(sample_weight, dict | list | tuple) or (
        len(getattr(sample_weight, "shape", ())) > 1
    )
    if by_output and carries_index(None, y):
        # Those of the index are for the structure alone.
        none = np.zeros(len(y[INDEX]), "float32")
        sample_weight = {INDEX: none, TARGET: sample_weight}
    return x, y, sample_weight, class_weight


def _class_weights(y, class_weight):
    """One weight `(n,)` for labels `(n,)`, `(n, 1)` or one-hot `(n, k)`."""
    if isinstance(y, dict | list | tuple):
        raise ValueError(
            "`class_weight` is for models with one output; give "
            f"`sample_weight` by output. Received: {type(y).__name__} of "
            "targets"
        )
    y = keras.ops.convert_to_numpy(y)
    if y.ndim > 1:
        y = y[..., 0] if y.shape[-1] == 1 else y.argmax(axis=-1)
    classes = np.round(y).astype("int64")
    known, place = np.unique(classes, return_inverse=True)
    weights = np.array([class_weight.get(int(c), 1.0) for c in known])
    return weights[place.reshape(classes.shape)].astype("float32")
