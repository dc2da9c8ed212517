"""Tells the regularizers of a model which noise its loss learns."""

import math

import keras

from keras_likelihood.regularizers.pruning import adaptive_weights


def bind_noise(model: keras.Model) -> int:
    """Connects a model's adaptive regularizers with its learned noise scale.

    `LikelihoodModel.compile` does this; a model that is built later, or given
    new regularizers, needs it again before `fit`. The noise is the one learned
    `scale` of the model's loss. It is then read by
    the regularizers, and corrected for the degrees of freedom that their
    weights use up. One layer may use up nearly all examples; several layers,
    whose count is a rule of thumb, at most half of them together.

    Args:
        model: a compiled `LikelihoodModel`.

    Returns:
        The number of regularizers that were connected: 0 if the loss learns
        no `scale`.

    Example:

    ```python
    model.compile("adam", loss=kl.losses.NormalLoss())
    kl.regularizers.bind_noise(model)
    ```
    """
    scale = _learned_scale(model)
    for weight in adaptive_weights(model):
        weight.regularizer.keep_silent()
    if model.built:
        for weight in adaptive_weights(model):
            weight.regularizer.claim(weight)
    weights = [
        w for w in adaptive_weights(model) if w.regularizer.loss == "nll"
    ]
    most = 1.0 if len(weights) == 1 else 0.5
    total = sum(math.prod(w.shape) for w in weights)
    for weight in weights:
        regularizer = weight.regularizer
        share = (
            most * regularizer.num_examples * math.prod(weight.shape) / total
        )
        regularizer.use_noise(scale, most_freedom=share)
    return 0 if scale is None else len(weights)


def _learned_scale(model):
    held = getattr(model, "loss_parameters", None)
    return None if held is None else held.learned().get("scale")
