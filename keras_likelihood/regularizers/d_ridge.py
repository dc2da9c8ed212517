"""L2 regularization of learned strength."""

import math

import numpy as np
from keras import ops

from keras_likelihood.backend.registration import serializable
from keras_likelihood.likelihoods.normal import Normal
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

    def __init__(self, *, num_examples: float, group="tensor", **options):
        super().__init__(num_examples=num_examples, group=group, **options)

    def prior_nll(self, weight, scale):
        return Normal(ops.zeros_like(weight), scale=scale).nll(weight)

    def pull(self, weight):
        return weight

    def is_on(self, weight, scale, precision):
        signal = precision * scale**2
        members = weight.size / math.prod(scale.shape)
        # A group is off if all of its weights use next to no freedom.
        on = members * signal / (1.0 + signal) > 0.2
        return np.broadcast_to(on, weight.shape)
