"""Callbacks that a model adds at the start of `fit`."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.training_rows import (
    is_arrays,
    split_batches,
    split_rows,
    split_stratified,
)
from keras_likelihood.regularizers.learn_scales import (
    LearnScales,
    learned_weights,
)
from keras_likelihood.regularizers.leave_one_out import LinearModel
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
        _give_rows(model, learner, given)
        if isinstance(learner.held_out, tuple | list):
            model._check_targets(*learner.held_out[1:])
    # Callbacks only see log values that earlier callbacks added.
    given["callbacks"] = callbacks if is_list else [*own, *listed]
    for callback in own if is_list else ():
        callback.set_model(model)
        callbacks.append(callback)


def _give_rows(model: Any, learner: Any, given: Any) -> None:
    names = ("x", "y", "sample_weight")
    rows, held_out = tuple(map(given.get, names)), given.get("validation_data")
    share, is_split = learner.share, given.get("validation_split")
    source = "validation rows"
    if share is None and held_out is None and learner.held_out is None:
        share = 0.1 if not is_split and _needs_held_out_rows(model) else None
    if share is not None and is_arrays(rows[0]):
        rows, held_out = split_stratified(rows, rows[1], share, learner.seed)
        given.update(zip(names, rows, strict=True))
        source = f"{len(keras.tree.flatten(held_out)[0])} training rows"
        learner.say_once(source, given.get("verbose"))
    elif learner.share is not None:
        raise ValueError(
            "`LearnScales(held_out=...)` with a fraction needs arrays. For "
            "a dataset, pass held-out rows. "
            f"Received: held_out={share} and {type(rows[0]).__name__}"
        )
    elif share is not None and (parts := split_batches(rows[0])) is not None:
        given["x"], held_out = parts
        rows, source = (given["x"], None, None), "every tenth batch"
        learner.say_once(source, given.get("verbose"))
    elif is_split and held_out is None and is_arrays(rows[0]):
        rows, held_out = split_rows(rows, is_split)
    learner.use_rows(rows, held_out, source)


def _needs_held_out_rows(model: Any) -> bool:
    """Whether `fit` holds out rows that choose the regularizers' strength."""
    if not model.built or model.data_parameters:
        return False
    weights = learned_weights(model)
    return bool(weights) and LinearModel.of(model, weights) is None


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
