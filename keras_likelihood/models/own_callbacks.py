"""Callbacks that a model adds to those of the user, and tells of a training."""

import keras

from keras_likelihood.models.finite_loss import FiniteLoss
from keras_likelihood.models.learned_values import LearnedValues
from keras_likelihood.regularizers.example_inputs import (
    known_steps,
    training_part,
)
from keras_likelihood.regularizers.measured_curvature import MeasuredCurvature
from keras_likelihood.regularizers.pruning import adaptive_weights


def with_own_callbacks(
    model, x=None, y=None, callbacks=None, validation_split=0.0, **_
):
    """The callbacks of `fit`, with those that the model needs.

    Args:
        model: a `LikelihoodModel`.
        x: as in `fit`.
        y: as in `fit`.
        callbacks: as in `fit`. A `CallbackList` is changed in place.
        validation_split: as in `fit`.

    Returns:
        What to give to `fit` of Keras.
    """
    given = _listed(callbacks)
    own = [c for c in model.data_parameters.values() if c not in given]
    own += [LearnedValues(), FiniteLoss()]
    measured = any(isinstance(c, MeasuredCurvature) for c in given)
    if not measured and (not model.built or adaptive_weights(model)):
        seen = (training_part(part, validation_split) for part in (x, y))
        own.append(MeasuredCurvature(*seen))
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        # Later callbacks see the values that an earlier one adds to the logs.
        return [*own, *given]
    for callback in own:
        callback.set_model(model)
        callbacks.append(callback)
    return callbacks


def take_scales(model, callbacks, **given):
    """Keeps scales that a callback will move out of an unbuilt optimizer.

    Args:
        model: a `LikelihoodModel`.
        callbacks: what `with_own_callbacks` returned.
        **given: the other arguments of `fit`.
    """
    for callback in _listed(callbacks):
        if isinstance(callback, MeasuredCurvature):
            callback.take_scales(model, known_steps(**given))


def _listed(callbacks):
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks.callbacks
    return [c for c in keras.tree.flatten(callbacks) if c is not None]
