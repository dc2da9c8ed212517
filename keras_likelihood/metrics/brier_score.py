"""The Brier score as a streaming Keras metric."""

import keras
from keras import ops

from keras_likelihood.metrics.expected_calibration_error import (
    as_class_probabilities,
)
from keras_likelihood.registration import serializable


@serializable
class BrierScore(keras.metrics.Mean):
    """Mean squared distance of the probabilities to the one-hot outcome.

        Brier = mean_i sum_c (p_ic - [y_i = c])^2

    Args:
        from_logits: whether predictions are logits. Defaults to False.
        name, dtype: as in `keras.metrics.Metric`.
    """

    def __init__(
        self,
        *,
        from_logits: bool = False,
        name: str = "brier_score",
        dtype=None,
    ):
        super().__init__(name=name, dtype=dtype)
        self.from_logits = from_logits

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, p = as_class_probabilities(
            y_true, y_pred, self.from_logits, self.dtype
        )
        outcome = ops.one_hot(y_true, p.shape[-1], dtype=p.dtype)
        score = ops.sum(ops.square(p - outcome), axis=-1)
        if sample_weight is not None:
            sample_weight = ops.reshape(sample_weight, (-1,))
        super().update_state(score, sample_weight)

    def get_config(self):
        return {**super().get_config(), "from_logits": self.from_logits}
