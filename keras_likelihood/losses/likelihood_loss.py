"""Negative log-likelihood losses."""

from __future__ import annotations

import dataclasses
import inspect
import math
import numbers
import types
import warnings
from typing import Any, TypeAlias, cast, dataclass_transform

import keras
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.processes import gather_replicas, replica_count
from keras_likelihood.backend.registration import serializable, snake_case
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.data_parameters.data_parameter import DataParameter
from keras_likelihood.layers.parameter_layers import GlobalParameter
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.output import names_in_output, split_output
from keras_likelihood.losses.batch import Batch

ParameterValue: TypeAlias = (
    float | tuple[float, ...] | str | GlobalParameter | DataParameter | None
)


@dataclass_transform(eq_default=False)
def registered_loss(cls: Any) -> Any:
    """Makes the fields of a loss its arguments, and registers it for saving."""
    return serializable(dataclasses.dataclass(eq=False, repr=False)(cls))


@registered_loss
class LikelihoodLoss(keras.losses.Loss):
    """Mean negative log-likelihood of the targets.

    Each parameter of the likelihood is one of

    - a number: fixed;
    - `"global"` or a `GlobalParameter`: learned by the loss;
    - a `DataParameter`: learned, with one value per training example;
    - omitted: taken from the model's output `(prediction, parameter, ...)` if
      the output has parameters, otherwise learned by the loss.

    `LikelihoodModel` trains the parameters that the loss learns. In your own
    training loop, call `adopt()` once and then train `trainable_variables`. A
    plain Keras model does not train them: omitted parameters keep their values
    with a warning, and `"global"` raises an error.

    Like Keras' regression losses, this loss averages over the last axis and
    then reduces over the batch. The log-likelihood includes all constants.

    Args:
        likelihood: a `Likelihood` or its name.
        dimension: dimension of the learned parameters, `"scalar"` (default),
            `"channel"` or `"element"`.
        missing: targets that are unknown: `"nan"`, or a number such as -1 or
            255. They have weight 0 in the loss, the metrics and `adapt`, and
            means are over the other targets. Defaults to `None`.
        reduction: as in `keras.losses.Loss`.
        name: name of the loss.
        dtype: the dtype of the computation. Defaults to
            `keras.config.floatx()`.
        **parameters: the likelihood's parameters, by name.
    """

    likelihood = cast(Any, None)
    """Set by a subclass for one likelihood."""
    _: dataclasses.KW_ONLY
    dimension: str = "scalar"
    missing: float | str | None = None
    reduction: str | None = "sum_over_batch_size"
    name: str | None = None
    dtype: dataclasses.InitVar[Any] = None

    def __init__(
        self,
        likelihood: Any = None,
        *,
        dimension: str = "scalar",
        missing: float | str | None = None,
        reduction: str | None = "sum_over_batch_size",
        name: str | None = None,
        dtype: Any = None,
        **parameters: ParameterValue,
    ) -> None:
        self.dimension, self.reduction, self.name = dimension, reduction, name
        self.missing = missing
        self._prepare(likelihood, dtype, parameters)

    def __post_init__(self, dtype: Any) -> None:
        """Prepares a loss of one likelihood, whose arguments are fields."""
        self._prepare(None, dtype, None)

    def _prepare(self, likelihood: Any, dtype: Any, parameters: Any) -> None:
        name = self.name or snake_case(type(self))
        super().__init__(name, self.reduction, dtype)
        self.dtype = keras.losses.Loss.dtype.fget(self)
        self.likelihood = self._choose(likelihood)
        if parameters is None:
            kinds = ("ParameterValue", ParameterValue)
            fields = [f for f in dataclasses.fields(self) if f.type in kinds]
            parameters = {f.name: vars(self)[f.name] for f in fields}
        for parameter, value in parameters.items():
            # Not every likelihood of a family has all parameters.
            if value is not None or parameter not in vars(self):
                self.likelihood.parameter(parameter)
        given = {
            p.name: _as_given(p, parameters.get(p.name))
            for p in self.likelihood.parameters
        }
        learned, data = {}, {}
        for key, value in given.items():
            if value is None or value == "global":
                options = {"name": key, "dtype": keras.config.floatx()}
                value = GlobalParameter(dimension=self.dimension, **options)
            if isinstance(value, GlobalParameter):
                learned[key] = value.bind(self.likelihood, key)
            elif isinstance(value, DataParameter):
                data[key] = value.bind(self.likelihood, key)
            if isinstance(value, keras.Layer) and key in vars(self):
                # Keras would save it a second time.
                setattr(self, key, "global")
        # Keras would save layers in a plain dict a second time.
        self._parameters = types.SimpleNamespace(
            given=given, learned=learned, data=data
        )
        mark = self.missing
        if isinstance(mark, numbers.Real):
            # Class numbers are compared as integers.
            self.missing = int(mark) if mark % 1 == 0 else float(mark)
        elif mark not in (None, "nan"):
            check_argument("missing", mark, False, "'nan', a number or None")
        self._trainer: str | None = None
        self._has_warned = False

    def _choose(self, likelihood: Any) -> Any:
        """The likelihood of this loss, given the argument."""
        return likelihoods.get(type(self).likelihood or likelihood)

    @property
    def trainable_variables(self) -> list[Any]:
        """Variables of the learned parameters that are built."""
        learned = self._parameters.learned.values()
        return [v for parameter in learned for v in parameter.variables]

    @property
    def data_parameters(self) -> dict[str, Any]:
        """Dictionary of the `DataParameter`s."""
        return dict(self._parameters.data)

    def adopt(self, trainer: str = "loop") -> list[Any]:
        """Declares that the caller trains `trainable_variables`.

        Call it once in your own training loop. A `LikelihoodModel` is the
        trainer `"model"`. It never calls the loss, so a call comes from another
        model and raises a warning.

        Returns:
            The `trainable_variables`.
        """
        self._trainer = trainer
        return self.trainable_variables

    def predicted(self, count: int) -> list[str]:
        """Names of the parameters in an output with `count` parameters."""
        given = self._parameters.given.items()
        known = [name for name, value in given if value is not None]
        return names_in_output(self.likelihood, known, count)

    def sources(self, count: int = 0) -> dict[str, str]:
        """Source of each parameter if the output has `count` parameters.

        It is `"fixed"`, `"global"`, `"data"` or `"predicted"`.
        """
        found = dict.fromkeys(self._parameters.given, "fixed")
        found |= dict.fromkeys(self.data_parameters, "data")
        found |= dict.fromkeys(self._parameters.learned, "global")
        return found | dict.fromkeys(self.predicted(count), "predicted")

    def learned_beside(self, count: int = 0) -> dict[str, Any]:
        """The `GlobalParameter`s in use if `count` parameters are predicted."""
        sources = self.sources(count)
        learned = self._parameters.learned.items()
        return {n: p for n, p in learned if sources[n] == "global"}

    def build(self, prediction_shape: Shape, count: int = 0) -> None:
        """Builds the learned parameters if `count` others are predicted."""
        learned, data = self.learned_beside(count), self.data_parameters
        for parameter in (*learned.values(), *data.values()):
            parameter.build(prediction_shape)

    def parameter_values(self) -> dict[str, Any]:
        """Values of the fixed and learned parameters, as NumPy arrays."""
        learned, data = self._parameters.learned, self._parameters.data
        return {
            name: learned[name].latest if name in learned else given
            for name, given in self._parameters.given.items()
            if name not in data and (name not in learned or learned[name].built)
        }

    def distribution(
        self, y_pred: Tensor, rows: dict[str, Any] | None = None
    ) -> Any:
        """The distribution for `y_pred`, the output of a model.

        `rows` maps the names of data parameters to their values for these
        examples. Missing data parameters take their fallback values.
        """
        prediction, predicted = split_output(y_pred)
        prediction = ops.cast(prediction, self.dtype)
        names = self.predicted(len(predicted))
        values = dict(zip(names, predicted, strict=True))
        rows = rows or {}
        for name, given in self._parameters.given.items():
            if name in values:
                continue
            parameter = self._parameters.learned.get(name)
            if parameter is not None:
                if not parameter.built:
                    parameter.build(tuple(prediction.shape))
                value = ops.cast(parameter.value(), self.dtype)
                values[name] = value[None] if len(value.shape) else value
            elif name not in self._parameters.data:
                values[name] = given
            elif name in rows:
                values[name] = rows[name]
            else:
                values[name] = given.fallback_value()
        return self.likelihood(prediction, **values)

    def batch(
        self,
        y_true: Tensor,
        y_pred: Tensor,
        sample_weight: Any = None,
        index: Any = None,
    ) -> Batch:
        """The `Batch` of an output with its targets and weights."""
        return Batch.of(
            self.likelihood,
            y_true,
            y_pred,
            sample_weight,
            index=index,
            missing=self.missing,
            dtype=self.dtype,
        )

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Any = None
    ) -> Any:
        batch = self.batch(y_true, y_pred, sample_weight)
        self._check_is_trained(len(batch.parameters))
        return self.of(self.distribution(batch.output), batch)

    def of(self, distribution: Likelihood, batch: Batch) -> Any:
        """The loss of a batch, given its distribution.

        It is a number, or one value per example if `reduction` is `"none"`. It
        is NaN if a target with weight > 0 is impossible.
        """
        counts = batch.weight > 0
        known = ops.logical_and(counts, batch.possible)
        y = batch.target_where(known, distribution)
        values = self.outcome_losses(distribution, y, batch.weight)
        wrong = ops.logical_and(counts, ops.logical_not(batch.possible))
        values = ops.where(wrong, math.nan, values)
        return batch.reduce(values, self.reduction)

    def outcome_losses(
        self, distribution: Likelihood, y_true: Tensor, weights: Tensor
    ) -> Tensor:
        """Loss of every outcome, for possible targets.

        A subclass may use the sample weights, by which the loss is multiplied
        later.
        """
        return self.elementwise(distribution, y_true)

    def elementwise(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        """Loss of every outcome, which a subclass may override."""
        return distribution.nll(y_true)

    def _check_is_trained(self, count: Any) -> None:
        if self._trainer == "loop" or self._has_warned:
            return
        given = self._parameters.given
        unused = self.learned_beside(count)
        asked = [n for n in unused if given[n] is not None]
        asked += self.data_parameters
        if asked and self._trainer is None:
            raise ValueError(
                f"{self.name}: {asked} should be learned, but this model does "
                "not train its loss. Use `LikelihoodModel` (or "
                "`LikelihoodModel.from_model(model)`), pass numbers, or call "
                "`loss.adopt()` in your own training loop. "
                f"Received: {_describe(given, asked)}"
            )
        if unused:
            start = {n: p.start for n, p in unused.items()}
            kept = f"{_describe(start, unused)} stay at their initial values"
            if self._trainer is not None:
                kept = f"{list(unused)} keep their values from another model"
            warnings.warn(
                f"{self.name}: this model does not train its loss, so {kept}. "
                "Use `keras_likelihood.LikelihoodModel` to learn them, or pass "
                "them as numbers to avoid this warning.",
                stacklevel=3,
            )
        self._has_warned = True

    def get_config(self) -> dict[str, Any]:
        given = self._parameters.given
        names = [f.name for f in dataclasses.fields(self) if f.init]
        config = {n: getattr(self, n) for n in names if n not in given}
        config["dtype"] = self.dtype
        for name, value in given.items():
            if isinstance(value, keras.Layer | DataParameter):
                value = keras.saving.serialize_keras_object(value)
            config[name] = value
        if "likelihood" in inspect.signature(type(self)).parameters:
            config["likelihood"] = self.likelihood.name()
        return config


@registered_loss
class LocationScaleLoss(LikelihoodLoss):
    """Negative log-likelihood with terms weighted by their scale.

        weight nll(y),    weight = scale^(beta k), without gradient

    If the scale is predicted, the model may explain large errors as noise early
    in training and then neglect these outcomes. `beta` corrects this. With 0
    the loss is the plain negative log-likelihood. 0.5 is the usual compromise
    (beta-NLL, Seitzer et al. 2022, for the normal). With 1 the weight of an
    outcome in training the prediction does not depend on its scale.

    The power k is `scale_exponent()` of the likelihood. At `beta=1` it makes
    the gradient with respect to the prediction independent of the scale. For
    the normal (k = 2) this is the gradient of the squared error, for the
    Laplace (k = 1) of the absolute error. For other likelihoods it holds on
    average over residuals that follow the likelihood.

    Args:
        likelihood: a `Likelihood` with a `scale`, or its name.
        beta: strength of the weighting, from 0 (default, no weighting) to 1.
        balanced: whether to divide the weights by their weighted mean over the
            batch. The loss then keeps its size relative to regularizers and
            other losses. Defaults to False.
        **options: arguments of `LikelihoodLoss`.
    """

    _: dataclasses.KW_ONLY
    beta: float = 0.0
    balanced: bool = False

    def __init__(
        self,
        likelihood: Any = None,
        *,
        beta: float = 0.0,
        balanced: bool = False,
        **options: Any,
    ) -> None:
        self.beta, self.balanced = beta, balanced
        super().__init__(likelihood, **options)

    def _prepare(self, likelihood: Any, dtype: Any, parameters: Any) -> None:
        super()._prepare(likelihood, dtype, parameters)
        self.likelihood.parameter("scale")
        check_argument("beta", self.beta, 0 <= self.beta <= 1, "in [0, 1]")
        self.beta, self.balanced = float(self.beta), bool(self.balanced)

    def prediction_weight(self, distribution: Likelihood) -> Any:
        """Weight of each outcome before balancing, without gradient."""
        power = self.beta * distribution.scale_exponent()
        return ops.stop_gradient(distribution.scale**power)

    def outcome_losses(
        self, distribution: Likelihood, y_true: Tensor, weights: Tensor
    ) -> Tensor:
        nll = self.elementwise(distribution, y_true)
        if self.beta == 0:
            return nll
        weight = self.prediction_weight(distribution)
        if self.balanced:
            counts = ops.cast(weights, nll.dtype)
            weight, counts = (
                ops.broadcast_to(w, ops.shape(nll)) for w in (weight, counts)
            )
            sums = ops.stack([ops.sum(counts * weight), ops.sum(counts)])
            if replica_count() > 1:
                sums = ops.sum(gather_replicas(sums[None]), axis=0)
            weight = weight / ops.divide_no_nan(sums[0], sums[1])
        return nll * weight


def _describe(values: Tensor, names: Any) -> Any:
    return ", ".join(f"{n}={values[n]}" for n in names)


def _as_given(parameter: Any, given: Any) -> Any:
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
