"""L1 regularization of learned strength."""

import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.evidence.laplace_scales import RESOLUTION
from keras_likelihood.likelihoods.laplace import Laplace
from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)


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

    def __init__(self, *, num_examples: float, group="tensor", **options):
        super().__init__(num_examples=num_examples, group=group, **options)

    def prior_nll(self, weight, scale):
        return Laplace(ops.zeros_like(weight), scale=scale).nll(weight)

    def pull(self, weight):
        return ops.sign(weight)

    def is_on(self, weight, scale, precision):
        return np.abs(weight) > RESOLUTION / np.sqrt(precision)
