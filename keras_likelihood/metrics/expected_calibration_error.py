"""ECE as a streaming Keras metric."""

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.metrics.class_metric import ClassMetric


@serializable
class ExpectedCalibrationError(ClassMetric):
    """Mean gap between confidence and accuracy, in equal-width bins.

        ECE = sum_b n_b / n |accuracy_b - confidence_b|

    The metric keeps three numbers for each bin, whatever the amount of data.
    Adaptive bins and debiasing need all data at once; see
    `keras_likelihood.metrics.expected_calibration_error`.

    ```python
    model.compile(loss=..., metrics=[kl.metrics.ExpectedCalibrationError()])
    ```

    Args:
        bins: number of bins of [0, 1]. Defaults to 15.
        classwise: whether to average the errors of the probabilities of all
            classes. The default is the error of the most probable class. Needs
            `classes`.
        classes: number of classes, for `classwise`.
        from_logits: as in `ClassMetric`.
        name, dtype: as in `keras.metrics.Metric`.

    Targets: class numbers or one-hot labels; 0/1 for one column.
    """

    def __init__(
        self,
        *,
        bins: int = 15,
        classwise: bool = False,
        classes: int | None = None,
        from_logits: bool | None = None,
        name: str = "expected_calibration_error",
        dtype=None,
    ):
        super().__init__(from_logits=from_logits, name=name, dtype=dtype)
        if bins < 1:
            raise ValueError(f"`bins` must be >= 1. Received: {bins}")
        if classwise and not classes:
            raise ValueError(
                "`classwise=True` needs `classes`. Received: classes=None"
            )
        self.bins = bins
        self.classwise = classwise
        self.classes = classes
        rows = classes if classwise and classes else 1
        for part in ("size", "hits", "belief"):
            variable = self.add_variable(
                shape=(rows * bins,), initializer="zeros", name=part
            )
            setattr(self, part, variable)

    def update_from(self, distribution, y_true, weights):
        y_true, p, weights = self.outcomes(distribution, y_true, weights)
        classes = p.shape[-1]
        if self.classwise:
            confidence = p
            occurred = ops.one_hot(y_true, classes, dtype=self.dtype)
            first = ops.arange(classes, dtype="int32") * self.bins
        else:
            confidence = ops.max(p, axis=-1, keepdims=True)
            top = ops.cast(ops.argmax(p, axis=-1), "int32")
            occurred = ops.cast(top == y_true, self.dtype)[:, None]
            first = 0
        index = ops.cast(ops.floor(confidence * self.bins), "int32")
        index = ops.clip(index, 0, self.bins - 1) + first
        weight = weights[:, None] * ops.ones_like(confidence)
        for variable, values in (
            (self.size, weight),
            (self.hits, weight * occurred),
            (self.belief, weight * confidence),
        ):
            variable.assign_add(self._sum_by_bin(values, index))

    def _sum_by_bin(self, values, index):
        return ops.segment_sum(
            ops.reshape(values, (-1,)),
            ops.reshape(index, (-1,)),
            num_segments=self.size.shape[0],
        )

    def result(self):
        rows = self.classes if self.classwise else 1
        gap = ops.abs(self.hits - self.belief)
        total = ops.sum(self.size) / rows
        return ops.divide_no_nan(ops.sum(gap), total * rows)

    def get_config(self):
        return {
            **super().get_config(),
            "bins": self.bins,
            "classwise": self.classwise,
            "classes": self.classes,
        }
