"""Layers of calibrated models, which can be saved and exported.

Their arguments are plain values, which Keras saves without a `get_config`.
"""

from typing import Any

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.mixture import EnsembleDistribution
from keras_likelihood.likelihoods.output import distribution_of


@serializable
class LikelihoodPrediction(keras.Layer):
    """Identity layer that stores the name of the prediction's likelihood."""

    def __init__(self, likelihood: str, **kwargs):
        super().__init__(**kwargs)
        self.likelihood = likelihood

    def call(self, inputs):
        return inputs


@serializable
class PooledLogits(keras.Layer):
    """Pools the outputs of an ensemble's members.

    Args:
        likelihood: name of the members' likelihood, softmax or bernoulli.
        components: number of members.
        temperature: temperature of the members, if it is not predicted.

    Input: `[member]` or `[member, temperature]`, see `EnsembleDistribution`.
    Output: logits of the mean probabilities.
    """

    def __init__(
        self, likelihood: str, components: int, temperature=1.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.likelihood = likelihood
        self.components = components
        self.temperature = temperature

    def call(self, inputs):
        member, *predicted = inputs
        count = self.components
        pooled: Any = EnsembleDistribution(self.likelihood, components=count)
        first = member[..., : member.shape[-1] // count]
        given = predicted[0] if predicted else self.temperature
        return pooled(first, member=member, temperature=given).prediction


@serializable
class ClassLogits(keras.Layer):
    """Logits of a likelihood of classes with one unit, such as ordinal.

    Args:
        likelihood: name of the likelihood.
        known: dict of the parameters that are not in the input.

    Input: `[prediction, parameter, ...]`. Output: log-probabilities
    `(batch, ..., classes)`.
    """

    def __init__(self, likelihood: str, known: dict, **kwargs):
        super().__init__(**kwargs)
        self.likelihood = likelihood
        self.known = dict(known)

    def call(self, inputs):
        kind = likelihoods.get(self.likelihood)
        found = distribution_of(kind, inputs, known=self.known)
        p = found.class_probabilities()[..., 0, :]
        return ops.log(ops.maximum(p, 1e-30))
