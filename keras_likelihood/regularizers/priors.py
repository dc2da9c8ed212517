"""Normal and Laplace priors of weights, and the prior of a learned noise."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI
from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)

RESOLUTION = 0.1
"""Weights below this fraction of their standard error count as zero."""


@serializable
class DRidge(AdaptiveRegularizer):
    """L2 with a learned strength: a normal prior with a learned scale `s`.

        penalty = sum_j (w_j^2 / (2 s^2) + log(s) + log(2 pi) / 2)
                  / num_examples

    ```python
    keras.layers.Dense(64, kernel_regularizer=kl.regularizers.DRidge())
    ```

    Args:
        **options: those of `AdaptiveRegularizer`.
    """

    order = 2

    def prior_nll(self, weight: Tensor, scale: Tensor) -> Tensor:
        constant = ops.log(scale) + HALF_LOG_2_PI
        return 0.5 * ops.square(weight / scale) + constant

    def prior_gradient(self, weight: Tensor) -> Tensor:
        return weight

    def share_determined(
        self, weight: Tensor, scale: Tensor, precision: Tensor
    ) -> Tensor:
        return precision / (precision + scale**-2.0)

    def is_on(self, weight: Array, scale: Array, precision: float) -> Array:
        share = self.share_determined(weight, scale, precision)
        members = weight.size / math.prod(scale.shape)
        # A group is off if all of its weights use next to no freedom.
        return np.broadcast_to(np.asarray(members * share > 0.2), weight.shape)


@serializable
class DLasso(AdaptiveRegularizer):
    """L1 with a learned strength: a Laplace prior with a learned scale `b`.

        penalty = sum_j (|w_j| / b + log(2 b)) / num_examples

    Args:
        **options: those of `AdaptiveRegularizer`.
    """

    order = 1

    def prior_nll(self, weight: Tensor, scale: Tensor) -> Tensor:
        return ops.abs(weight / scale) + ops.log(2.0 * scale)

    def prior_gradient(self, weight: Tensor) -> Tensor:
        return ops.sign(weight)

    def share_determined(
        self, weight: Tensor, scale: Tensor, precision: Tensor
    ) -> Tensor:
        is_on = ops.abs(weight) * ops.sqrt(precision) > RESOLUTION
        return ops.cast(is_on, "float32")

    def is_on(self, weight: Array, scale: Array, precision: float) -> Array:
        return np.asarray(np.abs(weight) > RESOLUTION / np.sqrt(precision))


class _OfEveryWeight(AdaptiveRegularizer):
    """A prior with a scale for every weight."""

    def __init__(self, *, group: str = "weight", **options: Any) -> None:
        super().__init__(group=group, **options)


@serializable
class MultiRidge(_OfEveryWeight, DRidge):
    """L2 as `DRidge`, with a learned scale `s_j` for every weight.

    Large weights get wide priors and are hardly shrunk. Weights that the data
    do not need are shrunk strongly, but not to zero.

    Args:
        group: as in `AdaptiveRegularizer`. Defaults to `"weight"`.
        **options: those of `AdaptiveRegularizer`.
    """


@serializable
class MultiLasso(_OfEveryWeight, DLasso):
    """L1 as `DLasso`, with a learned scale `b_j` for every weight.

    Large weights get wide priors and are hardly shrunk. The others are
    switched off.

    Args:
        group: as in `AdaptiveRegularizer`. Defaults to `"weight"`.
        **options: those of `AdaptiveRegularizer`.
    """


class NoisePrior(keras.regularizers.Regularizer):
    """Corrects a learned noise for the degrees of freedom of the weights.

        penalty = -(df / n) * log(noise)

    With the NLL of `n` examples, the noise of a normal target becomes `noise^2
    = RSS / (n - df)`. Without it, the noise of a model that can interpolate its
    data would go to zero. `df` is at most 95 % of the examples.
    """

    def __init__(self, parameter: Any, weights: list[Any]) -> None:
        self._parameter, self.weights = parameter, weights

    def __call__(self, variable: Tensor) -> Tensor:
        noise = ops.cast(self._parameter.value(), "float32")
        priors = [weight.regularizer for weight in self.weights]
        # A negative value means that it was not measured yet.
        used = sum(
            ops.maximum(ops.convert_to_tensor(p.freedom), 0.0)
            / ops.maximum(ops.convert_to_tensor(p.terms), 1.0)
            for p in priors
        )
        return -ops.minimum(used, 0.95) * ops.mean(ops.log(noise))


def learned_parameters(model: Any) -> dict[str, Any]:
    """The parameters that the loss of a model learns, by name."""
    own = getattr(model, "loss_parameters", None)
    return {} if own is None else own.learned()


def attach_noise_prior(model: Any, weights: list[Any]) -> bool:
    """Adds a `NoisePrior` to the learned noise; returns whether it is new."""
    noise = learned_parameters(model).get("scale")
    if noise is None or not weights:
        return False
    before = getattr(noise.unconstrained.regularizer, "weights", [])
    if [*map(id, before)] == [*map(id, weights)]:
        return False
    noise.unconstrained.regularizer = NoisePrior(noise, weights)
    return True
