"""The prior of a learned noise: degrees of freedom that the weights use."""

import math

import keras
from keras import ops


class NoisePrior(keras.regularizers.Regularizer):
    """Counts `log(noise)` for the examples that are left over.

        penalty = -(df / n) * log(noise)

    Added to the negative log-likelihood of `n` examples, it makes the noise of
    a normal target `noise^2 = RSS / (n - df)`. Without it, the noise of a
    model that can interpolate its data would follow the residuals to zero.
    `df` is what `Evidence` has measured, 0 before that. One layer may use up
    nearly all examples; several layers, whose count is a rule of thumb, at
    most half of them together.

    Args:
        parameter: the learned `GlobalParameter`.
        weights: weights with adaptive regularizers.
        inner: regularizer that the parameter had before, or `None`.
    """

    def __init__(self, parameter, weights, inner=None):
        self._parameter, self.weights, self.inner = parameter, weights, inner
        self._total = sum(math.prod(w.shape) for w in weights)

    def __call__(self, variable):
        noise = ops.cast(self._parameter.value(), "float32")
        most = 1.0 if len(self.weights) == 1 else 0.5
        used = 0.0
        for weight in self.weights:
            share = most * math.prod(weight.shape) / self._total
            prior = weight.regularizer
            freedom = ops.convert_to_tensor(prior.freedom) / prior.num_examples
            # Below zero it is not measured yet.
            used = used + ops.clip(freedom, 0.0, share)
        penalty = -used * ops.mean(ops.log(noise))
        if self.inner is not None:
            penalty = penalty + self.inner(variable)
        return penalty


def learned_noise(model):
    """The one `scale` that the loss of a model learns, or `None`."""
    held = getattr(model, "loss_parameters", None)
    return None if held is None else held.learned().get("scale")


def attach_noise_prior(model, weights) -> bool:
    """Gives the learned noise of a model its prior.

    Args:
        model: any compiled model.
        weights: its weights with adaptive regularizers.

    Returns:
        Whether anything has changed.
    """
    noise = learned_noise(model)
    weights = [w for w in weights if w.regularizer.loss == "nll"]
    if noise is None or not weights:
        return False
    before = noise.unconstrained.regularizer
    if isinstance(before, NoisePrior):
        if [id(w) for w in before.weights] == [id(w) for w in weights]:
            return False
        before = before.inner
    noise.unconstrained.regularizer = NoisePrior(noise, weights, before)
    return True
