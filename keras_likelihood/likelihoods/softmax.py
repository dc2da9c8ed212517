"""Cross-entropy with a learned temperature, and for labels that are wrong."""

import math
from typing import ClassVar

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import Identity, ShiftedSoftplus
from keras_likelihood.likelihoods.checks import fits
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parameter import Parameter

FORGETTING = 0.3
"""Share of the present prediction in the memory of `NoisyLabels`."""
AGREEMENT = 3.0
"""How much agreement with the memory counts beside the label."""
_LEAST = 1e-4


class Softmax(Likelihood):
    """Categorical distribution over the last axis of the logits.

        nll(y) = log sum_c exp(logits_c / temperature) - logits_y / temperature

    At `temperature = 1` it is the cross-entropy. The logits are divided by the
    temperature, so a high temperature means uncertain. The literature also
    uses its inverse, tau = 1 / temperature.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: `> 0`; its last axis is 1. Defaults to 1.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter("temperature", ShiftedSoftplus(0.2), neutral=True, rate=0.5),
    )
    event_rank = 1

    @property
    def logits(self):
        """Logits after division by the temperature."""
        return self.prediction / self.temperature

    def _bounded_logits(self):
        """Logits of the same probabilities, finite at any temperature."""
        largest = ops.max(self.prediction, axis=-1, keepdims=True)
        distance = self.prediction - ops.stop_gradient(largest)
        temperature = clip(self.temperature, 1.2e-38, math.inf)
        return clip(distance / temperature, -1e30, math.inf)

    def nll(self, y):
        """Negative log-likelihood of the classes `y`.

        Args:
            y: class numbers `(batch, ...)` or `(batch, ..., 1)`, or one-hot
                or soft labels of the logits' shape.

        Returns:
            One value per outcome, `(batch, ...)`. It is NaN if a number is not
            a class.
        """
        y = ops.convert_to_tensor(y)
        shape, received = tuple(self.prediction.shape), tuple(y.shape)
        if len(shape) < 2 or shape[-1] == 1:
            raise ValueError(
                "Softmax needs logits (batch, ..., classes) with at least two "
                f"classes. For one logit use Bernoulli. Received: {shape}"
            )
        logits = self._bounded_logits()
        if fits(received, shape):
            return ops.categorical_crossentropy(
                ops.cast(y, logits.dtype), logits, from_logits=True
            )
        if fits(received, shape[:-1] + (1,)):
            y = ops.squeeze(y, axis=-1)
        elif not fits(received, shape[:-1]):
            raise ValueError(
                f"Labels for logits {shape} must be class numbers of shape "
                f"{shape[:-1]} or one-hot of shape {shape}. "
                f"Received: {received}"
            )
        index = ops.cast(y, "int32")
        possible = ops.logical_and(index >= 0, index < logits.shape[-1])
        # Numbers such as 1.5 and NaN are not classes.
        possible = ops.logical_and(possible, ops.cast(index, y.dtype) == y)
        nll = ops.sparse_categorical_crossentropy(
            ops.where(possible, index, 0), logits, from_logits=True
        )
        return self._or_nan(nll, possible)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        y, classes = cls._as_numbers(y), prediction_shape[-1]
        if classes == 1:
            raise ValueError(
                f"{cls.__name__} needs a logit for each of two or more "
                "classes. For yes or no with one logit use Bernoulli. "
                f"Received: predictions of shape {tuple(prediction_shape)}"
            )
        if y.shape[-1:] == (classes,) and y.ndim == len(prediction_shape):
            off = ~(np.abs(y.sum(axis=-1, dtype="float64") - 1) <= 1e-3)
            bad = ~(y >= 0) | off[..., None]
            allowed = "rows of shares >= 0 that sum to 1"
        else:
            bad = ~((y >= 0) & (y < classes) & (np.floor(y) == y))
            allowed = f"whole numbers from 0 to {classes - 1}"
        cls._refuse_targets(y, bad, allowed)

    def mean(self):
        """Class probabilities, of the logits' shape."""
        return ops.softmax(self._bounded_logits())

    def information(self):
        """Diagonal of `(diag(p) - p p^T) / temperature^2`, p probabilities."""
        return self.variance() / ops.square(self.temperature)

    def variance(self):
        p = self.mean()
        return p * (1 - p)

    def pooled_prediction(self, axis):
        """Logits of the mean probabilities over an axis of the logits."""
        logs = ops.log_softmax(self._bounded_logits(), axis=-1)
        count = math.log(self.prediction.shape[axis])
        return ops.logsumexp(logs, axis=axis) - count

    def class_probabilities(self):
        """Probabilities with the classes on the last axis."""
        return self.mean()

    def sample(self, count=None, seed=None):
        """Draws class numbers: `(batch, ...)`, or `(count, batch, ...)`."""
        shape, dtype = self._sample_shape(count), self.prediction.dtype
        uniform = keras.random.uniform(shape, 1e-20, dtype=dtype, seed=seed)
        gumbel = -ops.log(-ops.log(uniform))
        return ops.argmax(self._bounded_logits() + gumbel, axis=-1)

    def _as_tfp(self, tfp):
        return tfp.Categorical(logits=self.logits)


class NoisyLabels(Softmax, registered=False):
    """Softmax that remembers what it believed of each example.

    A network learns right labels before it learns wrong ones by heart. So
    every example keeps a memory m: the running mean of the probabilities p
    that the network gave it. The network is rewarded for agreeing with it:

        nll(y) = -log p_y + 3 log(1 - sum_k p_k m_k)

    Without a memory it is the cross-entropy. This is early-learning
    regularization (Liu, Niles-Weed, Razavian and Fernandez-Granda, 2020),
    with the memory as a data parameter and the numbers of their experiments
    with CIFAR-10.

    It is a likelihood times a prior on predictions, so it does not sum to one
    over the labels. `mean`, `sample` and all others are those of the true
    class: of the softmax.

    Args:
        prediction: logits, `(batch, ..., classes)`.
        temperature: divides the logits. Defaults to 1.
        memory: `(batch, ..., classes)`. Its sum is below one for an example
            that was seen a few times only, and the reward is smaller then.
    """

    parameters = (
        *Softmax.parameters,
        Parameter(
            "memory",
            Identity(),
            initial=0.0,
            neutral=True,
            size=lambda units: units,
            rate=FORGETTING,
            is_followed=True,
        ),
    )

    def nll(self, y):
        p = clip(self.mean(), _LEAST, 1 - _LEAST)
        # The memory as it will be after this step; none without one.
        known = ops.cast(self.memory > 0, p.dtype)
        memory = (1 - FORGETTING) * self.memory + FORGETTING * known * p
        agreement = 1 - ops.sum(p * ops.stop_gradient(memory), axis=-1)
        return super().nll(y) + AGREEMENT * ops.log(agreement)

    def followed(self, name):
        return self.mean()
