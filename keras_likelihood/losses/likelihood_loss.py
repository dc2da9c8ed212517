"""The loss that is the negative log-likelihood of any likelihood."""

import math
import numbers
import types
import warnings
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable, snake_case
from keras_likelihood.data_parameters.data_parameter import DataParameter
from keras_likelihood.layers.parameter_layers import GlobalParameter
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.output import (
    distribution_of,
    names_in_output,
    split_output,
)
from keras_likelihood.losses.batch import Batch


@serializable
class LikelihoodLoss(keras.losses.Loss):
    """Mean negative log-likelihood of the targets.

    Each parameter of the likelihood is one of

    - a number: fixed;
    - `"global"` or a `GlobalParameter`: learned by the loss;
    - a `DataParameter`: learned with a value per training example;
    - left out: taken from the model's output `(prediction, parameter, ...)`
      if that has parameters, else learned by the loss.

    Something must train what the loss learns. `LikelihoodModel` does. In a
    training loop of your own, call `adopt()` once and then train
    `trainable_variables`. A stock Keras model does not train it: parameters
    that were left out keep their values, one warning says so, and `"global"`
    is an error.

    Like Keras' regression losses, this loss averages over the last axis and
    then reduces over the batch. The log-likelihood is complete: no constant is
    dropped.

    Args:
        likelihood: a `Likelihood` or its name.
        dimension: the dimension of the parameters the loss learns: `"scalar"`
            (default), `"channel"` or `"element"`.
        ignore_class: a label, such as -1 or 255, of outcomes that do not
            count, as in `keras.losses.SparseCategoricalCrossentropy`. For
            likelihoods of classes. Defaults to `None`: all outcomes count.
        reduction: as in `keras.losses.Loss`.
        name: name of the loss.
        dtype: the dtype of the computation. Defaults to
            `keras.config.floatx()`.
        **parameters: the likelihood's parameters, by name.
    """

    likelihood: Any = None
    """Set by a subclass that stands for one likelihood."""

    def __init__(
        self,
        likelihood=None,
        *,
        dimension: str = "scalar",
        ignore_class: int | None = None,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype=None,
        **parameters,
    ):
        super().__init__(name or snake_case(type(self)), reduction, dtype)
        self.likelihood = likelihoods.get(type(self).likelihood or likelihood)
        self.dimension = dimension
        for parameter in parameters:
            self.likelihood.parameter(parameter)
        given = {
            p.name: _as_given(p, parameters.get(p.name))
            for p in self.likelihood.parameters
        }
        learned, data = {}, {}
        for key, value in given.items():
            if value is None or value == "global":
                value = GlobalParameter(
                    dimension=dimension, name=key, dtype=keras.config.floatx()
                )
            if isinstance(value, GlobalParameter):
                learned[key] = value.bind(self.likelihood, key)
            elif isinstance(value, DataParameter):
                data[key] = value.bind(self.likelihood, key)
        # Keras would save the layers in a dict of the loss once more.
        self._parameters = types.SimpleNamespace(
            given=given, learned=learned, data=data
        )
        self.ignore_class = _checked_label(ignore_class, self.likelihood)
        self._trainer: str | None = None
        self._has_warned = False

    @property
    def trainable_variables(self) -> list:
        """Variables behind the learned parameters that are built."""
        learned = self._parameters.learned.values()
        return [v for parameter in learned for v in parameter.variables]

    @property
    def data_parameters(self) -> dict:
        """The `DataParameter`s among the parameters, by name."""
        return dict(self._parameters.data)

    def adopt(self, trainer: str = "loop") -> list:
        """Says that the caller trains `trainable_variables`; returns them.

        Call it once in a training loop of your own. A `LikelihoodModel` is the
        trainer `"model"`: it does not call the loss, so that a call comes from
        another model, which gets a warning.
        """
        self._trainer = trainer
        return self.trainable_variables

    def predicted(self, count: int) -> list[str]:
        """Names of the parameters in an output that holds `count` of them."""
        given = self._parameters.given.items()
        known = [name for name, value in given if value is not None]
        return names_in_output(self.likelihood, known, count)

    def sources(self, count: int = 0) -> dict[str, str]:
        """Where the value of each parameter comes from, by name.

        It is `"fixed"`, `"global"`, `"data"` or `"predicted"`, if the model's
        output has `count` parameters.
        """
        found = dict.fromkeys(self._parameters.given, "fixed")
        found |= dict.fromkeys(self.data_parameters, "data")
        found |= dict.fromkeys(self._parameters.learned, "global")
        return found | dict.fromkeys(self.predicted(count), "predicted")

    def learned_beside(self, count: int = 0) -> dict:
        """The `GlobalParameter`s that are used if `count` are predicted."""
        sources = self.sources(count)
        learned = self._parameters.learned.items()
        return {n: p for n, p in learned if sources[n] == "global"}

    def build(self, prediction_shape, count: int = 0):
        """Makes the parameters that are learned beside `count` predicted."""
        learned, data = self.learned_beside(count), self.data_parameters
        for parameter in (*learned.values(), *data.values()):
            parameter.build(prediction_shape)

    def parameter_values(self) -> dict:
        """Values of the fixed and the learned parameters, as NumPy."""
        learned, data = self._parameters.learned, self._parameters.data
        return {
            name: learned[name].latest if name in learned else given
            for name, given in self._parameters.given.items()
            if name not in data and (name not in learned or learned[name].built)
        }

    def distribution(self, y_pred, rows: dict | None = None):
        """The likelihood object around `y_pred`, the output of a model.

        `rows` are values of the data parameters for its examples, by name.
        Without them each has its fallback.
        """
        prediction, beside = split_output(y_pred)
        known = dict(rows or {})
        for name, source in self.sources(len(beside)).items():
            given = self._parameters.given[name]
            if source == "fixed":
                known[name] = given
            elif source == "global":
                parameter = self._parameters.learned[name]
                if not parameter.built:
                    parameter.build(tuple(np.shape(prediction)))
                value = ops.cast(parameter.value(), self.dtype)
                known[name] = value if len(value.shape) == 0 else value[None]
            elif source == "data" and name not in known:
                known[name] = given.fallback_value()
        return distribution_of(
            self.likelihood, y_pred, known=known, dtype=self.dtype
        )

    def batch(self, y_true, y_pred, sample_weight=None) -> Batch:
        """The output of a model with its targets and weights."""
        return Batch(y_pred, y_true, sample_weight, self.ignore_class)

    def __call__(self, y_true, y_pred, sample_weight=None):
        self._refuse_untrained_parameters(len(split_output(y_pred)[1]))
        batch = self.batch(y_true, y_pred, sample_weight)
        return self.of(self.distribution(y_pred), batch)

    def of(self, distribution, batch: Batch):
        """The loss of a batch whose distribution is known.

        It is a number, or one value per example if `reduction` is `"none"`. It
        is NaN if a target that counts is not finite.
        """
        rank = distribution.event_rank
        weights = batch.weights(rank)
        y, is_given = batch.finite_target(distribution, weights)
        values = self.outcome_losses(distribution, y, weights)
        if len(is_given.shape) > len(values.shape):
            is_given = ops.all(is_given, axis=-1)
        if not rank and weights.shape[-1] == 1:
            # An example counts as a whole: there are fewer values to look at.
            values = ops.mean(values, axis=-1, keepdims=True)
            is_given = ops.all(is_given, axis=-1, keepdims=True)
        other = ops.cast(ops.where(weights > 0, math.nan, 0.0), values.dtype)
        values = ops.where(is_given, values, other)
        values = batch.without_ignored(values, self.reduction)
        if not rank and not batch.weighs_units(rank):
            values = ops.mean(values, axis=-1)
        return batch.reduce(values, self.reduction, self.dtype)

    def outcome_losses(self, distribution, y_true, weights):
        """Loss of every outcome, for possible targets.

        A subclass may use the weights, which are 0 where an outcome does not
        count. The loss is multiplied by them later.
        """
        return self.elementwise(distribution, y_true)

    def elementwise(self, distribution, y_true):
        """Loss of every outcome; a subclass may define it."""
        return distribution.nll(y_true)

    def _refuse_untrained_parameters(self, count):
        if self._trainer == "loop" or self._has_warned:
            return
        given = self._parameters.given
        unused = self.learned_beside(count)
        asked = [n for n in unused if given[n] is not None]
        asked += self.data_parameters
        if asked and self._trainer is None:
            raise ValueError(
                f"{self.name}: {asked} should be learned, but this model does "
                "not train its loss. Use `keras_likelihood.LikelihoodModel` "
                "(or `LikelihoodModel.from_model(model)`), give numbers "
                "instead, or call `loss.adopt()` in a training loop of your "
                f"own. Received: {_describe(given, asked)}"
            )
        if unused:
            start = {n: p.start for n, p in unused.items()}
            kept = f"{_describe(start, unused)} stay at their initial values"
            if self._trainer is not None:
                kept = f"{list(unused)} stay as another model left them"
            warnings.warn(
                f"{self.name}: this model does not train its loss, so {kept}. "
                "Use `keras_likelihood.LikelihoodModel` to learn them, or give "
                "them as numbers to avoid this warning.",
                stacklevel=3,
            )
        self._has_warned = True

    def get_config(self):
        config = {
            **super().get_config(),
            "dimension": self.dimension,
            "ignore_class": self.ignore_class,
            "dtype": self.dtype,
        }
        for name, value in self._parameters.given.items():
            if isinstance(value, keras.Layer | DataParameter):
                value = keras.saving.serialize_keras_object(value)
            config[name] = value
        if type(self).likelihood is None:
            config["likelihood"] = self.likelihood.name()
        return config


@serializable
class LocationScaleLoss(LikelihoodLoss):
    """Negative log-likelihood with terms weighted by their scale.

        weight nll(y),    weight = scale^(beta k), held constant

    If the scale is predicted, the model may explain large errors as noise
    early in the training. It then neglects these outcomes. `beta` corrects
    this. With 0 the loss is the plain likelihood. 0.5 is the usual compromise
    (beta-NLL, Seitzer et al. 2022, for the normal). With 1 the scale does not
    change how much an outcome trains the prediction.

    The power k is `scale_exponent()` of the likelihood. At `beta=1` it makes
    the gradient with respect to the prediction independent of the scale: for
    the normal (k = 2) the gradient of squared error, for the Laplace
    distribution (k = 1) that of absolute error. For other likelihoods this
    holds on average over residuals that follow the likelihood.

    Args:
        likelihood: one with a `scale`, or its name.
        beta: how much outcomes with a large scale are weighted up, from 0
            (default, the likelihood itself) to 1.
        balanced: whether to divide the weights by their weighted mean over the
            outcomes of the batch that count. The loss then keeps its size
            relative to regularizers and other losses. Defaults to False.
        **options: those of `LikelihoodLoss`.
    """

    def __init__(
        self,
        likelihood=None,
        *,
        beta: float = 0.0,
        balanced: bool = False,
        **options,
    ):
        super().__init__(likelihood, **options)
        self.likelihood.parameter("scale")
        check_argument("beta", beta, 0 <= beta <= 1, "in [0, 1]")
        self.beta = float(beta)
        self.balanced = bool(balanced)

    def prediction_weight(self, distribution):
        """The constant weight of each outcome, before any balancing."""
        power = self.beta * distribution.scale_exponent()
        return ops.stop_gradient(distribution.scale**power)

    def outcome_losses(self, distribution, y_true, weights):
        nll = self.elementwise(distribution, y_true)
        if self.beta == 0:
            return nll
        weight = self.prediction_weight(distribution)
        if self.balanced:
            counts = ops.cast(weights, nll.dtype)
            weight, counts = (
                ops.broadcast_to(w, ops.shape(nll)) for w in (weight, counts)
            )
            total = ops.sum(counts * weight)
            weight = weight / ops.divide_no_nan(total, ops.sum(counts))
        return nll * weight

    def get_config(self):
        own = {"beta": self.beta, "balanced": self.balanced}
        return {**super().get_config(), **own}


def _checked_label(label, likelihood):
    if label is None:
        return None
    if not hasattr(likelihood, "class_probabilities") or label != int(label):
        raise ValueError(
            "`ignore_class` must be a whole number, for a likelihood of "
            f"classes. Received: {label!r} for {likelihood.name()!r}"
        )
    return int(label)


def _describe(values, names):
    return ", ".join(f"{n}={values[n]}" for n in names)


def _as_given(parameter, given):
    if isinstance(given, dict):
        given = keras.saving.deserialize_keras_object(given)
    if given is None or isinstance(given, GlobalParameter | DataParameter):
        return given
    if isinstance(given, str) and given == "global":
        return given
    if isinstance(given, numbers.Real) or (
        parameter.size is not None and isinstance(given, list | tuple)
    ):
        return parameter.check(given)
    raise ValueError(
        f"`{parameter.name}` must be a number, 'global', a GlobalParameter, "
        f"a DataParameter or None. Received: {given!r}"
    )
