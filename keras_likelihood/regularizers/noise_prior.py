"""Correction of a learned noise for the degrees of freedom of the weights."""

from typing import Any

import keras
from keras import ops

from keras_likelihood.backend.types import Tensor


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
