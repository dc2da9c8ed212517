"""What `fit` does before Keras: checks, weights, callbacks, building."""

import contextlib
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.kept_values import variables_of
from keras_likelihood.backend.training_rows import Rows, to_numpy
from keras_likelihood.backend.types import Shape
from keras_likelihood.data_parameters.indexed import (
    INDEX,
    TARGET,
    has_index,
    indices,
)
from keras_likelihood.likelihoods.checks import aligned
from keras_likelihood.likelihoods.output import align_weight, split_output
from keras_likelihood.losses.batch import is_missing
from keras_likelihood.regularizers.learn_scales import (
    LearnScales,
    learned_weights,
)
from keras_likelihood.regularizers.priors import attach_noise_prior
from keras_likelihood.regularizers.report import adaptive_weights


def check_targets(
    compiled: Any, outputs: Any, y: Any, sample_weight: Any = None
) -> None:
    """Raises an error for impossible targets before the first step.

    Only arrays are checked, in one pass over the labels. In other data, and in
    sequences that may be masked, impossible targets make the loss NaN.
    """
    predictions = compiled.outputs.of_model(outputs)
    targets = compiled.outputs.targets(y, sample_weight)
    for key, loss in compiled.by_key.items():
        prediction, _ = split_output(predictions[key])
        labels, weight, _ = targets[key]
        if hasattr(labels, "__array__") and np.size(labels):
            labels, weight = to_numpy((labels, weight))
            # Keras raises the error for another length.
            if weight is None or len(weight) == len(labels):
                _check_labels(loss, tuple(prediction.shape), labels, weight)


def _check_labels(loss: Any, shape: Shape, y: Any, weight: Any) -> None:
    likelihood, rank = loss.likelihood, len(shape) - loss.likelihood.event_rank
    what = f"Targets of {likelihood.__name__}"
    y = aligned(y, likelihood.target_shapes(shape), what)
    counts = np.ones((1,) * rank, bool)
    if weight is not None:
        counts = align_weight(likelihood, weight, shape) != 0
    if len(shape) != 2:
        return
    if loss.missing is not None:
        known = ~is_missing(y, loss.missing)
        # A vector with a missing entry is missing.
        known = known.reshape(*known.shape[:rank], -1).all(axis=-1)
        counts = counts & known
    counts = np.broadcast_to(counts, y.shape[:rank])
    if not counts.any():
        return
    # Other targets may have any value.
    more = (1,) * (y.ndim - rank)
    y = np.where(counts.reshape(counts.shape + more), y, y[counts][0])
    if y.dtype.kind == "f" and not likelihood.takes_bounds:
        for bad in np.argwhere(~np.isfinite(y))[:1]:
            raise ValueError(
                f"{what} must be finite numbers, except at weight 0. "
                f"Received: {y[tuple(bad)]} in row {bad[0]}"
            )
    likelihood.check_targets(y, shape)


def indexed_weights(
    x: Any, y: Any, sample_weight: Any = None, class_weight: Any = None
) -> Any:
    """Sample weights in the structure of the targets, as Keras needs them.

    Targets of `kl.indexed` are dicts.
    """
    if class_weight is not None and indices(x, y):
        raise ValueError(
            "`class_weight` must be None with `kl.indexed`. Pass the weights "
            "of the examples as `sample_weight`. "
            f"Received: class_weight={class_weight}"
        )
    if sample_weight is None or not has_index(y):
        return sample_weight
    # The weights of the index are unused.
    unused = np.zeros(len(y[INDEX]), "float32")
    return {INDEX: unused, TARGET: sample_weight}


def refuse_new_rows(y: Any) -> None:
    """Raises an error for validation targets with the default numbers."""
    for index in map(keras.ops.convert_to_numpy, indices(None, y) or ()):
        if np.array_equal(index, np.arange(len(index))):
            raise ValueError(
                "The rows of a `DataParameter` belong to the training "
                "examples. Pass the targets of other examples without an "
                "index, or the numbers of training rows as "
                "`kl.indexed(y, index=rows)`. Received: `validation_data` "
                f"with the rows 0 to {len(index) - 1}"
            )


def build_model(model: Any, x: Any) -> None:
    """Builds a model that has not been called, from the inputs of `fit`.

    TensorFlow would build it inside the first step, after the callbacks have
    looked for its weights. Generators are not read, because reading them would
    consume their rows.
    """
    if model.built or x is None:
        return
    rows = Rows(x)
    if rows.can_be_read:
        with _scope(model):
            model(rows.draw(1)["x"])


def build_optimizer(model: Any) -> None:
    """Builds the optimizer of a built model, unless it is built already.

    TensorFlow traces a step twice if the step creates variables. With a built
    optimizer it traces once, and the first `fit` starts in half the time.
    """
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None or optimizer.built or not model.built:
        return
    with _scope(model):
        optimizer.build(model.trainable_variables)


def _scope(model: Any) -> Any:
    strategy = getattr(model, "distribute_strategy", None)
    return strategy.scope() if strategy else contextlib.nullcontext()


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
        own = [v for v in variables_of(model) if id(v) not in skipped]
        self._copies = [(v, np.array(v.numpy())) for v in own]

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
