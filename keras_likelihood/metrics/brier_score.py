"""The Brier score as a streaming Keras metric."""

from keras import ops

from keras_likelihood.metrics.class_metric import ClassMetric
from keras_likelihood.registration import serializable


@serializable
class BrierScore(ClassMetric):
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
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_from(self, distribution, y_true, weights):
        y_true, p, weights = self.outcomes(distribution, y_true, weights)
        outcome = ops.one_hot(y_true, p.shape[-1], dtype=p.dtype)
        score = ops.sum(ops.square(p - outcome), axis=-1)
        self.total.assign_add(ops.sum(weights * score))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        return ops.divide_no_nan(self.total, self.count)
