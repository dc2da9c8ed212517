"""How much each outcome of a batch counts."""

import keras
from keras import ops


def outcome_weights(prediction, sample_weight=None, *, event_rank: int = 0):
    """Weights of the outcomes: the sample weights, and 0 where masked.

    Args:
        prediction: `(batch, ..., units)`, with the mask that Keras gave it.
        sample_weight: `(batch,)`, up to the shape of the prediction, or
            `None`.
        event_rank: trailing axes of the prediction that form one outcome.

    Returns:
        Weights that broadcast with the outcomes: `(batch, ...)` for classes,
        else `(batch, ..., 1 or units)`.
    """
    rank = len(prediction.shape)
    if sample_weight is not None:
        sample_weight = ops.convert_to_tensor(sample_weight)
    whole = (
        not event_rank
        and sample_weight is not None
        and len(sample_weight.shape) == rank
        and sample_weight.shape[-1] == prediction.shape[-1]
    )
    weights = _Ones(keeps_units=whole)(prediction, prediction, sample_weight)
    if event_rank or whole:
        return weights
    return ops.expand_dims(weights, axis=-1)


class _Ones(keras.losses.Loss):
    """A loss that is 1 everywhere. Keras then applies weights and masks.

    Only Keras' own code can find the mask of a tensor.
    """

    def __init__(self, keeps_units):
        super().__init__("ones", reduction="none")
        self.keeps_units = keeps_units

    def call(self, y_true, y_pred):
        return ops.ones_like(y_pred if self.keeps_units else y_pred[..., 0])
