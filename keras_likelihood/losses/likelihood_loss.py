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
    with a warning, and `"global"` raises an error. As in Keras' regression
    losses, the last axis is averaged.

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
        given, learned, data = {}, {}, {}
        has_spread = issubclass(self.likelihood, likelihoods.LocationScale)
        for p in self.likelihood.parameters:
            value = given[p.name] = _as_given(p, parameters.get(p.name))
            if value is None or value == "global":
                options = {"name": p.name, "dtype": keras.config.floatx()}
                value = GlobalParameter(dimension=self.dimension, **options)
            if isinstance(value, GlobalParameter):
                options = {"has_unit": p.name == "scale" and has_spread}
                learned[p.name] = value.bind(self.likelihood, p.name, **options)
            elif isinstance(value, DataParameter):
                data[p.name] = value.bind(self.likelihood, p.name)
            if isinstance(value, keras.Layer) and p.name in vars(self):
                # Keras would save it a second time.
                setattr(self, p.name, "global")
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
        return [v for p in learned for v in p.trainable_variables]

    @property
    def data_parameters(self) -> dict[str, Any]:
        """Dictionary of the `DataParameter`s."""
        return dict(self._parameters.data)

    def adopt(self, trainer: str = "loop") -> list[Any]:
        """Declares that the caller trains `trainable_variables`; returns them.

        A `LikelihoodModel` is the trainer `"model"`. It never calls the loss,
        so a call comes from another model and raises a warning.
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
        return (
            dict.fromkeys(self._parameters.given, "fixed")
            | dict.fromkeys(self._parameters.data, "data")
            | dict.fromkeys(self._parameters.learned, "global")
            | dict.fromkeys(self.predicted(count), "predicted")
        )

    def learned_beside(self, count: int = 0) -> dict[str, Any]:
        """The `GlobalParameter`s in use if `count` parameters are predicted."""
        left = set(self.predicted(count))
        learned = self._parameters.learned.items()
        return {n: p for n, p in learned if n not in left}

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

        `rows` are the values of data parameters for these examples, by name.
        Others take their fallback values.
        """
        prediction, predicted = split_output(y_pred)
        prediction = ops.cast(prediction, self.dtype)
        names = self.predicted(len(predicted))
        values = self._parameters.given | (rows or {})
        values |= dict(zip(names, predicted, strict=True))
        for name, parameter in self._parameters.learned.items():
            if name in names:
                continue
            if not parameter.built:
                parameter.build(tuple(prediction.shape))
            value = ops.cast(parameter.value(), self.dtype)
            values[name] = value[None] if len(value.shape) else value
        for name in set(self._parameters.data) - set(rows or {}):
            values[name] = self._parameters.data[name].fallback_value()
        return self.likelihood(prediction, **values)

    def batch(
        self,
        y_true: Tensor,
        y_pred: Tensor,
        sample_weight: Any = None,
        index: Any = None,
    ) -> Batch:
        """The `Batch` of an output with its targets and weights."""
        options = {"index": index, "missing": self.missing, "dtype": self.dtype}
        likelihood = self.likelihood
        return Batch.of(likelihood, y_true, y_pred, sample_weight, **options)

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
        y = batch.target_where(distribution, counts & batch.possible)
        values = self.elementwise(distribution, y)
        values = ops.where(counts & ~batch.possible, math.nan, values)
        return batch.reduce(values, self.reduction)

    def elementwise(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        """Loss of every outcome, which a subclass may override."""
        return distribution.nll(y_true)

    def _check_is_trained(self, count: int) -> None:
        if self._trainer == "loop" or self._has_warned:
            return
        given, unused = self._parameters.given, self.learned_beside(count)
        asked = [n for n in unused if given[n] is not None]
        asked += self.data_parameters
        if asked and self._trainer is None:
            raise ValueError(
                f"{self.name}: {asked} should be learned, but this model does "
                "not train its loss. Use `LikelihoodModel` (or "
                "`LikelihoodModel.from_model(model)`), pass numbers, or call "
                "`loss.adopt()` in your own training loop. "
                f"Received: {[given[n] for n in asked]}"
            )
        if unused:
            warnings.warn(
                f"{self.name}: this model does not train its loss, so the "
                f"parameters {list(unused)} keep their values. "
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
    (beta-NLL, Seitzer et al. 2022, for the normal). With 1 the gradient with
    respect to the prediction does not depend on the scale: for the normal
    (k = 2) it is that of the squared error, for the Laplace (k = 1) of the
    absolute error, and for others this holds on average over residuals. The
    power k is `scale_exponent()` of the likelihood.

    Args:
        likelihood: a `Likelihood` with a `scale`, or its name.
        scale: spread of the targets, given as in `LikelihoodLoss`.
        beta: strength of the weighting, from 0 (default, no weighting) to 1.
        **options: arguments of `LikelihoodLoss`.
    """

    _: dataclasses.KW_ONLY
    beta: float = 0.0

    def __init__(
        self, likelihood: Any = None, *, beta: float = 0.0, **options: Any
    ) -> None:
        self.beta = beta
        super().__init__(likelihood, **options)

    def _prepare(self, likelihood: Any, dtype: Any, parameters: Any) -> None:
        super()._prepare(likelihood, dtype, parameters)
        self.likelihood.parameter("scale")
        check_argument("beta", self.beta, 0 <= self.beta <= 1, "in [0, 1]")

    def prediction_weight(self, distribution: Likelihood) -> Any:
        """Weight of each outcome, without gradient."""
        power = self.beta * distribution.scale_exponent()
        return ops.stop_gradient(distribution.scale**power)

    def elementwise(self, distribution: Likelihood, y_true: Tensor) -> Tensor:
        nll = super().elementwise(distribution, y_true)
        return nll * self.prediction_weight(distribution) if self.beta else nll


def _as_given(parameter: Any, given: Any) -> Any:
    if isinstance(given, dict):
        given = keras.saving.deserialize_keras_object(given)
    own = given is None or isinstance(given, GlobalParameter | DataParameter)
    if own or (isinstance(given, str) and given == "global"):
        return given
    is_list = parameter.size is not None and isinstance(given, list | tuple)
    if is_list or isinstance(given, numbers.Real):
        return parameter.check(given)
    raise ValueError(
        f"`{parameter.name}` must be a number, 'global', a GlobalParameter, "
        f"a DataParameter or None. Received: {given!r}"
    )
