"""Sharpness of regressors as a streaming Keras metric."""

from keras_likelihood.backend.registration import serializable
from keras_likelihood.metrics.distribution_metric import MeanOverOutcomes


@serializable
class Sharpness(MeanOverOutcomes):
    """Mean predicted scale. A small value is sharp.

    Predictions: those of a likelihood with a `scale`.
    """

    def __init__(
        self, likelihood=None, *, name: str = "sharpness", dtype=None, **options
    ):
        super().__init__(likelihood, name=name, dtype=dtype, **options)

    def bind(self, loss):
        super().bind(loss)
        if loss.likelihood.parameter("scale").size is not None:
            raise ValueError(
                "Sharpness is for a likelihood with one scale per outcome. "
                f"Received: {loss.likelihood.name()}"
            )

    def values(self, distribution, y_true):
        return distribution.scale
