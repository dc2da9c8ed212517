"""ECE as a streaming Keras metric."""

import keras
from keras import ops

from keras_likelihood.registration import serializable


@serializable
class ExpectedCalibrationError(keras.metrics.Metric):
    """Mean gap between confidence and accuracy, in equal-width bins.

        ECE = sum_b n_b / n |accuracy_b - confidence_b|

    Three numbers a bin are kept, so any amount of data may stream through.
    For adaptive bins and debiasing, which need all data at once, see
    `keras_likelihood.metrics.expected_calibration_error`.

    ```python
    model.compile(loss=..., metrics=[kl.metrics.ExpectedCalibrationError()])
    ```

    Args:
        bins: number of bins of [0, 1]. Defaults to 15.
        classwise: average over the classes of the error of each class's
            probability, instead of that of the top class. Needs `classes`.
        classes: number of classes, for `classwise`.
        from_logits: whether predictions are logits. Defaults to False.
        name, dtype: as in `keras.metrics.Metric`.

    Targets: class numbers or one-hot labels; 0/1 for one column.
    """

    def __init__(
        self,
        *,
        bins: int = 15,
        classwise: bool = False,
        classes: int | None = None,
        from_logits: bool = False,
        name: str = "expected_calibration_error",
        dtype=None,
    ):
        super().__init__(name=name, dtype=dtype)
        if bins < 1:
            raise ValueError(f"`bins` must be >= 1. Received: {bins}")
        if classwise and not classes:
            raise ValueError(
                "`classwise=True` needs `classes`. Received: classes=None"
            )
        self.bins = bins
        self.classwise = classwise
        self.classes = classes
        self.from_logits = from_logits
        rows = classes if classwise else 1
        for part in ("size", "hits", "belief"):
            variable = self.add_variable(
                shape=(rows * bins,), initializer="zeros", name=part
            )
            setattr(self, part, variable)

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, p = as_class_probabilities(
            y_true, y_pred, self.from_logits, self.dtype
        )
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
        weight = ops.ones_like(confidence)
        if sample_weight is not None:
            given = ops.reshape(ops.cast(sample_weight, self.dtype), (-1, 1))
            weight = weight * given
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
            "from_logits": self.from_logits,
        }


def as_class_probabilities(y_true, y_pred, from_logits, dtype):
    """Class numbers `(rows,)` and probabilities `(rows, classes >= 2)`."""
    y_true = ops.convert_to_tensor(y_true)
    p = ops.cast(ops.convert_to_tensor(y_pred), dtype)
    binary = len(p.shape) == 1 or p.shape[-1] == 1
    if binary:
        p = ops.reshape(p, (-1, 1))
        p = ops.sigmoid(p) if from_logits else p
        p = ops.concatenate([1 - p, p], axis=-1)
    elif from_logits:
        p = ops.softmax(p, axis=-1)
    classes = p.shape[-1]
    if not binary and len(y_true.shape) == len(p.shape):
        if y_true.shape[-1] == classes:
            y_true = ops.argmax(y_true, axis=-1)
    y_true = ops.cast(ops.reshape(y_true, (-1,)), "int32")
    return y_true, ops.reshape(p, (-1, classes))
