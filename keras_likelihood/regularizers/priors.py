"""Normal and Laplace priors of weights, each with one learned scale or many."""

import math

import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI
from keras_likelihood.regularizers import prior_scales
from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)


@serializable
class DRidge(AdaptiveRegularizer):
    """L2 with a learned strength: a normal prior with a learned scale `s`.

        penalty = sum_j (w_j^2 / (2 s^2) + log(s) + log(2 pi) / 2)
                  / num_examples

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.DRidge(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        group: `"tensor"` (default) for one scale, `"input"` or `"output"`
            for one per input feature or output unit, which switches off
            features or units that carry nothing.
        **options: those of `AdaptiveRegularizer`.
    """

    order = 2
    evidence_scale = staticmethod(prior_scales.ridge_scale)

    def prior_nll(self, weight, scale):
        constant = ops.log(scale) + HALF_LOG_2_PI
        return 0.5 * ops.square(weight / scale) + constant

    def pull(self, weight):
        return weight

    def is_on(self, weight, scale, precision):
        signal = precision * scale**2
        members = weight.size / math.prod(scale.shape)
        # A group is off if all of its weights use next to no freedom.
        on = members * signal / (1.0 + signal) > 0.2
        return np.broadcast_to(on, weight.shape)


@serializable
class DLasso(AdaptiveRegularizer):
    """L1 with a learned strength: a Laplace prior with a learned scale `b`.

        penalty = sum_j (|w_j| / b + log(2 b)) / num_examples

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.DLasso(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        group: `"tensor"` (default) for one scale, `"input"` or `"output"`
            for one per input feature or output unit.
        **options: those of `AdaptiveRegularizer`.
    """

    order = 1
    evidence_scale = staticmethod(prior_scales.lasso_scale)

    def prior_nll(self, weight, scale):
        return ops.abs(weight / scale) + ops.log(2.0 * scale)

    def pull(self, weight):
        return ops.sign(weight)

    def is_on(self, weight, scale, precision):
        return np.abs(weight) > prior_scales.RESOLUTION / np.sqrt(precision)


class _OfEveryWeight(AdaptiveRegularizer):
    """A prior with a scale for every weight."""

    def __init__(self, *, num_examples: float, **options):
        super().__init__(num_examples=num_examples, group="weight", **options)

    def get_config(self):
        config = super().get_config()
        del config["group"]
        return config


@serializable
class MultiRidge(_OfEveryWeight, DRidge):
    """L2 with a learned scale `s_j` for every weight.

        penalty = sum_j (w_j^2 / (2 s_j^2) + log(s_j) + log(2 pi) / 2)
                  / num_examples

    Large weights get wide priors and are hardly shrunk. Weights that the data
    do not need are shrunk by a factor of nine, but not to zero.

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.MultiRidge(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        **options: those of `AdaptiveRegularizer` except `group`.
    """

    evidence_scale = staticmethod(prior_scales.multi_ridge_scale)


@serializable
class MultiLasso(_OfEveryWeight, DLasso):
    """L1 with a learned scale `b_j` for every weight.

        penalty = sum_j (|w_j| / b_j + log(2 b_j)) / num_examples

    Large weights get wide priors and are hardly shrunk. The others are
    switched off.

    ```python
    keras.layers.Dense(
        1, kernel_regularizer=kl.regularizers.MultiLasso(num_examples=500)
    )
    ```

    Args:
        num_examples: number of likelihood terms that the loss averages over.
        **options: those of `AdaptiveRegularizer` except `group`.
    """

    evidence_scale = staticmethod(prior_scales.multi_lasso_scale)
