"""CRPS of normal predictions as a streaming Keras metric."""

import math

from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.metrics.distribution_metric import MeanOverOutcomes


@serializable
class NormalCRPS(MeanOverOutcomes):
    """Continuous ranked probability score of normal predictions.

        CRPS = s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)),
        z = (y - prediction) / s

    Predictions: those of a `Normal`.
    """

    def __init__(
        self, likelihood="normal", *, name: str = "normal_crps", dtype=None
    ):
        super().__init__(likelihood, name=name, dtype=dtype)
        if self.likelihood is not likelihoods.Normal:
            raise ValueError(
                "NormalCRPS is for the likelihood 'normal'. "
                f"Received: {self.likelihood.name()!r}"
            )

    def values(self, distribution, y_true):
        z = distribution.standardize(y_true)
        density = ops.exp(-distribution.standard_nll(z))
        score = z * (2 * distribution.standard_cdf(z) - 1) + 2 * density
        return distribution.scale * (score - 1 / math.sqrt(math.pi))
