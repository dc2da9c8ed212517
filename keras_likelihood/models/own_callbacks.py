"""Callbacks that a model adds at the start of `fit`."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.training_rows import is_arrays, split_rows
from keras_likelihood.models.fit_arguments import class_weights
from keras_likelihood.regularizers.learn_scales import LearnScales
from keras_likelihood.regularizers.noise_prior import attach_noise_prior
from keras_likelihood.regularizers.report import adaptive_weights


def add_own_callbacks(model, given: dict):
    """Adds the callbacks of the model to the arguments of `fit`.

    A `CallbackList` is changed in place. If `LearnScales` holds out a fraction
    of the rows, these rows are removed.
    """
    expect_learned_scales(model)
    callbacks: Any = given.get("callbacks")
    is_list = isinstance(callbacks, keras.callbacks.CallbackList)
    listed = callbacks.callbacks if is_list else keras.tree.flatten(callbacks)
    listed = [c for c in listed if c is not None]
    own = [c for c in model.data_parameters.values() if c not in listed]
    own += [LearnedValues(), FiniteLoss()]
    learners = [c for c in listed if isinstance(c, LearnScales)]
    if not learners and (not model.built or adaptive_weights(model)):
        # Kept for the next `fit`, which can reuse its compiled functions.
        learners = [model.__dict__.setdefault("_learn_scales", LearnScales())]
        own += learners
    for learner in learners:
        _give_rows(learner, given)
        if isinstance(learner.held_out, tuple | list):
            model._check_targets(*learner.held_out[1:])
    # Callbacks only see log values that earlier callbacks added.
    given["callbacks"] = callbacks if is_list else [*own, *listed]
    for callback in own if is_list else ():
        callback.set_model(model)
        callbacks.append(callback)


def _give_rows(learner, given):
    names = ("x", "y", "sample_weight")
    rows, held_out = tuple(map(given.get, names)), given.get("validation_data")
    share, is_split = learner.share, given.get("validation_split")
    if share is not None:
        if not is_arrays(rows[0]):
            raise ValueError(
                "`LearnScales(held_out=...)` with a fraction needs arrays. For "
                "a dataset, pass held-out rows. "
                f"Received: held_out={share} and {type(rows[0]).__name__}"
            )
        rows, held_out = split_rows(rows, share)
        given.update(zip(names, rows, strict=True))
    elif is_split and held_out is None and is_arrays(rows[0]):
        rows, held_out = split_rows(rows, is_split)
    x, y, weights = rows
    if given.get("class_weight") and weights is None and hasattr(y, "shape"):
        weights = class_weights(y, given["class_weight"])
    learner.use_rows(x, y, weights, held_out)


def expect_learned_scales(model):
    """Builds the scales, and registers that `fit` of this model learns them.

    A learned noise gets its prior here, so a loaded model has the same loss as
    the saved one.
    """
    evidence = []
    for weight in adaptive_weights(model) if model.built else []:
        regularizer = weight.regularizer
        regularizer.claim(weight).expect_callback()
        if regularizer.objective == "evidence" and regularizer.trainable:
            evidence.append(weight)
    attach_noise_prior(model, evidence)


class LearnedValues(keras.callbacks.Callback):
    """Adds the learned parameters of the losses to the logs of every epoch.

    For a parameter with several values, the mean is logged.
    """

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            # On JAX, reading `self.model` updates the variables of the model.
            for name, parameter in self.model.loss_parameters.learned().items():
                logs[name] = float(np.mean(parameter.latest))


class FiniteLoss(keras.callbacks.Callback):
    """Raises an error if the loss is NaN, which compiled code cannot do.

    The loss is checked before batches 1, 8, 64, ... of a training, counted from
    0, and after every epoch. Each check makes Keras wait for the device.
    """

    def on_train_begin(self, logs=None):
        self._batches, self._next = 0, 1

    def on_train_batch_begin(self, batch, logs=None):
        if self._batches == self._next:
            self._next *= 8
            # On JAX, reading `self.model` updates the variables of the model.
            tracked = [m for m in self.model.metrics if m.name == "loss"]
            self._check([v.numpy() for m in tracked for v in m.variables])
        self._batches += 1

    def on_epoch_end(self, epoch, logs=None):
        self._check([(logs or {}).get("loss", 0.0)])

    def _check(self, values):
        if any(np.isnan(value).any() for value in values):
            raise ValueError(
                "The loss is NaN. Check the inputs and targets for NaN, the "
                "labels for values out of range, and the range of the "
                "predictions: a mean that must be positive needs a head or an "
                "activation such as 'softplus'. Received: loss=nan"
            )
