"""Metrics of class probabilities."""

from typing import Any

from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods import Bernoulli, Likelihood, Softmax
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.output import distribution_of, split_output
from keras_likelihood.metrics.distribution_metrics import (
    DistributionMetric,
    MeanOverOutcomes,
    as_logits,
)


class ClassMetric(DistributionMetric):
    """A metric of class probabilities.

    In the `compile` of a `LikelihoodModel` the loss determines the meaning of
    the output. Otherwise the metric accepts a `Likelihood`, `(logits,
    temperature)`, or logits or probabilities. One column is a binary outcome.

    Args:
        from_logits: whether a single output contains logits. `None` (default)
            and `False` mean probabilities.
        name, dtype: as in `keras.metrics.Metric`.
    """

    own_arguments: tuple[str, ...] = ("from_logits",)

    def __init__(
        self, *, from_logits: bool | None = None, **options: Any
    ) -> None:
        super().__init__(**options)
        self.from_logits = from_logits

    def bind(self, loss: Any) -> None:
        super().bind(loss)
        is_class = hasattr(loss.likelihood, "class_probabilities")
        allowed = f"a likelihood of classes for {self.name}, such as softmax"
        check_argument("loss", loss.likelihood.name(), is_class, allowed)

    def read(self, y_pred: Tensor) -> Likelihood:
        if isinstance(y_pred, Likelihood):
            return y_pred
        prediction, parameters = split_output(y_pred)
        prediction = ops.cast(prediction, self.dtype)
        if len(prediction.shape) == 1:
            prediction = ops.expand_dims(prediction, axis=-1)
        likelihood = Bernoulli if prediction.shape[-1] == 1 else Softmax
        if not parameters and not self.from_logits:
            prediction = as_logits(prediction, likelihood)
        output = (prediction, *parameters)
        return distribution_of(likelihood, output, dtype=self.dtype)

    def outcomes(self, distribution: Likelihood, y_true: Tensor) -> Any:
        """Class numbers `(batch, ...)` and probabilities `(..., classes)`."""
        p = ops.cast(distribution.class_probabilities(), self.dtype)
        if distribution.event_rank and len(y_true.shape) == len(p.shape):
            # One-hot labels
            y_true = ops.argmax(y_true, axis=-1)
        return ops.cast(ops.reshape(y_true, ops.shape(p)[:-1]), "int32"), p

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["likelihood"]
        return config


@serializable
class BrierScore(ClassMetric, MeanOverOutcomes):
    """Mean squared distance of the probabilities from the one-hot outcome.

        Brier = mean_i sum_c (p_ic - [y_i = c])^2

    Args:
        from_logits: as in `ClassMetric`.
        name, dtype: as in `keras.metrics.Metric`.
    """

    def values(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        y_true, p = self.outcomes(distribution, y_true)
        outcome = ops.one_hot(y_true, p.shape[-1], dtype=p.dtype)
        return ops.sum(ops.square(p - outcome), axis=-1)


@serializable
class ExpectedCalibrationError(ClassMetric):
    """Mean gap between confidence and accuracy, in equal-width bins.

        ECE = sum_b n_b / n |accuracy_b - confidence_b|

    Args:
        bins: number of bins of [0, 1]. Defaults to 15.
        from_logits: as in `ClassMetric`.
        name, dtype: as in `keras.metrics.Metric`.
    """

    own_arguments = ("from_logits", "bins")

    def __init__(self, *, bins: int = 15, **options: Any) -> None:
        super().__init__(**options)
        check_argument("bins", bins, bins >= 1, ">= 1")
        self.bins = bins
        self.gaps = self.add_variable((bins,), "zeros", name="gaps")
        self.size = self.add_variable((), "zeros", name="size")

    def update_from(self, distribution: Any, y_true: Any, weights: Any) -> None:
        y_true, p = self.outcomes(distribution, y_true)
        confidence = ops.max(p, axis=-1)
        top = ops.cast(ops.argmax(p, axis=-1), "int32")
        gap = ops.cast(top == y_true, self.dtype) - confidence
        weights = weights * ops.ones_like(confidence)
        index = ops.cast(ops.floor(confidence * self.bins), "int32")
        index = ops.reshape(ops.clip(index, 0, self.bins - 1), (-1,))
        gap = ops.reshape(weights * gap, (-1,))
        self.gaps.assign_add(ops.segment_sum(gap, index, self.bins))
        self.size.assign_add(ops.sum(weights))

    def result(self) -> Tensor:
        total = ops.sum(ops.abs(self.gaps))
        return ops.divide_no_nan(total, self.size)
