"""Callbacks that a model adds at the start of `fit`."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.regularizers.learn_scales import (
    LearnScales,
    learned_weights,
)
from keras_likelihood.regularizers.noise_prior import attach_noise_prior
from keras_likelihood.regularizers.report import adaptive_weights


def add_own_callbacks(model: Any, given: dict[str, Any]) -> None:
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
        learner.use_rows_of_fit(model, given)
        if isinstance(learner.held_out, tuple | list):
            model._check_targets(*learner.held_out[1:])
    # Callbacks only see log values that earlier callbacks added.
    given["callbacks"] = callbacks if is_list else [*own, *listed]
    for callback in own if is_list else ():
        callback.set_model(model)
        callbacks.append(callback)


def expect_learned_scales(model: Any) -> None:
    """Builds the scales, and registers that `fit` of this model learns them.

    A learned noise gets its prior here, so a loaded model has the same loss as
    the saved one.
    """
    if model.built:
        attach_noise_prior(model, learned_weights(model))


def check_counted(model: Any) -> None:
    """Raises an error if a regularizer does not know the number of terms."""
    for weight in adaptive_weights(model) if model.built else []:
        weight.regularizer.claim(weight).check_counted()


class LearnedValues(keras.callbacks.Callback):
    """Adds the learned parameters of the losses to the logs of every epoch.

    For a parameter with several values, the mean is logged.
    """

    def on_epoch_end(self, epoch: Any, logs: Any = None) -> None:
        if logs is not None:
            # On JAX, reading `self.model` updates the variables of the model.
            for name, parameter in self.model.loss_parameters.learned().items():
                logs[name] = float(np.mean(parameter.latest))


class FiniteLoss(keras.callbacks.Callback):
    """Raises an error if the loss is NaN, which compiled code cannot do.

    The loss is checked after the first batch and after every epoch. After an
    error the weights are those of the start or of a later epoch, which is the
    last of the epochs 1, 2, 4, 8, ... with a finite loss.
    """

    def on_train_begin(self, logs: Any = None) -> None:
        self._batches, self._epochs, self._next_copy = 0, 0, 1
        self._copy()

    def on_train_end(self, logs: Any = None) -> None:
        self._copies: list[Any] = []

    def _copy(self) -> None:
        model = self.model
        rows = [v for p in model.data_parameters.values() for v in p.variables]
        skipped = set(map(id, rows))
        own = [*model.trainable_variables, *model.non_trainable_variables]
        own += getattr(model.optimizer, "variables", [])
        self._copies = [
            (v, np.array(v.numpy())) for v in own if id(v) not in skipped
        ]

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._batches == 1:
            # On JAX, reading `self.model` updates the variables of the model.
            tracked = [m for m in self.model.metrics if m.name == "loss"]
            self._check([v.numpy() for m in tracked for v in m.variables])
        self._batches += 1

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._check([(logs or {}).get("loss", 0.0)])
        self._epochs += 1
        if self._epochs == self._next_copy:
            self._next_copy *= 2
            self._copy()

    def _check(self, values: Any) -> None:
        if not any(np.isnan(value).any() for value in values):
            return
        # On JAX, reading `self.model` updates the variables of the model.
        for variable, value in self._copies if self.model else ():
            variable.assign(value)
        raise ValueError(
            "The loss is NaN. Check the inputs and targets for NaN, the labels "
            "for values out of range, and the range of the predictions: a mean "
            "that must be positive needs a head or an activation such as "
            "'softplus'. Received: loss=nan"
        )
