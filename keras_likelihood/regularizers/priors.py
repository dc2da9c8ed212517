"""Normal and Laplace priors of weights, each with one learned scale or many."""

import math
from typing import Any

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
