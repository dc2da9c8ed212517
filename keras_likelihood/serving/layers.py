"""Layers of calibrated models, which can be saved and exported.

Their arguments are plain values, which Keras saves without a `get_config`.
"""

from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.output import distribution_of


@serializable
class LikelihoodPrediction(keras.Layer):
    """Identity layer that stores the name of the prediction's likelihood."""

    def __init__(self, likelihood: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.likelihood = likelihood

    def call(self, inputs: Tensor) -> Tensor:
        return inputs


@serializable
class ClassLogits(keras.Layer):
    """Logits of a likelihood of classes with one unit, such as ordinal.

    Args:
        likelihood: name of the likelihood.
        known: dict of the parameters that are not in the input.

    Input: `[prediction, parameter, ...]`. Output: log-probabilities
    `(batch, ..., classes)`.
    """

    def __init__(
        self, likelihood: str, known: dict[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.likelihood = likelihood
        self.known = dict(known)

    def call(self, inputs: list[Tensor]) -> Tensor:
        kind = likelihoods.get(self.likelihood)
        distribution = distribution_of(kind, inputs, known=self.known)
        p = distribution.class_probabilities()[..., 0, :]
        return ops.log(ops.maximum(p, 1e-30))
