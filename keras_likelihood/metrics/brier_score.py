"""The Brier score as a streaming Keras metric."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.metrics.class_metric import ClassMetric
from keras_likelihood.metrics.distribution_metric import WeightedMean


@serializable
class BrierScore(ClassMetric, WeightedMean):
    """Mean squared distance of the probabilities to the one-hot outcome.

        Brier = mean_i sum_c (p_ic - [y_i = c])^2

    Args:
        from_logits: as in `ClassMetric`.
        name, dtype: as in `keras.metrics.Metric`.
    """

    def __init__(
        self,
        *,
        from_logits: bool | None = None,
        name: str = "brier_score",
        dtype=None,
    ):
        super().__init__(from_logits=from_logits, name=name, dtype=dtype)

    def update_from(self, distribution, y_true, weights):
        y_true, p, weights = self.outcomes(distribution, y_true, weights)
        outcome = ops.one_hot(y_true, p.shape[-1], dtype=p.dtype)
        self.average_in(ops.sum(ops.square(p - outcome), axis=-1), weights)
