"""Heads, which map features to a prediction and likelihood parameters."""

import inspect
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import constraints, likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.layers.parameter_layers import (
    GlobalParameter,
    PredictedParameter,
    quantized_configs,
)
from keras_likelihood.layers.target_units import (
    centre_and_spread,
    collect_targets,
)
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.location_scale import LocationScale

SCALE = ShiftedSoftplus(0.01)
"""The constraint of scales, which heads relax."""


@serializable
class LikelihoodHead(keras.Layer):
    """Last layer of a model whose loss is a likelihood.

    Its output is `(prediction, parameter, ...)`, with the parameters in the
    order of the likelihood. If the likelihood has no parameters, the output is
    only the prediction.

    An option for parameters is one value for all of them, or a dict by name
    such as `conditioning={"shape": "global"}`, in which others use the default.

    Args:
        likelihood: a `Likelihood` or its name.
        units: size of the prediction's last axis (classes for softmax).
        conditioning: `"predicted"` from the features (default) or `"global"`.
        dimension: `"scalar"` (one per example), `"channel"` (one per unit)
            or `"element"` (one per outcome, default).
        isolated: whether to stop the gradient of the parameters at the
            features, so that they do not train the layers before the head.
        normalize: `"layer"` or `"batch"` normalises the features before the
            parameter layers.
        hidden_units: size of a separate hidden layer for each predicted
            parameter. With `isolated=True` and `beta=1` in the loss, the scale
            can then fit the noise without affecting the prediction.
        constraint: map from the reals to the domain. Defaults to
            `ShiftedSoftplus(0.001)`, with the lower bound 0.0014, for the scale
            of a likelihood with a location and a scale. Other parameters
            default to the constraint of the likelihood.
        initial: initial value. Defaults to the likelihood's initial value.
        learning_rate_multiplier: factor on the parameters' learning rate.
        weight_decay: strength of an L2 penalty on the distance of the
            parameters' weights from their initial values.
        clipnorm: maximum norm of the gradient of each weight of the
            parameters. It cannot be used with loss scaling.
        activation: activation of the prediction. Defaults to the likelihood's
            `prediction_constraint`: softplus for the mean of counts and of
            positive numbers, sigmoid for proportions, otherwise linear.
        kernel_initializer, kernel_regularizer: of the prediction's kernel.

    Input: `(batch, features)` or feature maps `(batch, ..., features)`.
    Output: prediction `(batch, ..., units)` and parameters that broadcast
    with it, all in the variables' dtype (float32 under mixed precision).
    """

    def __init__(
        self,
        likelihood: Any,
        units: int,
        *,
        conditioning: str = "predicted",
        dimension: str = "element",
        isolated: bool = False,
        normalize: Any = None,
        hidden_units: Any = None,
        constraint: Any = None,
        initial: Any = None,
        learning_rate_multiplier: float = 1.0,
        weight_decay: float = 0.0,
        clipnorm: Any = None,
        activation: Any = None,
        kernel_initializer: str = "glorot_uniform",
        kernel_regularizer: Any = None,
        **kwargs: Any,
    ) -> None:
        self._quantized = kwargs.pop("quantized", {})
        super().__init__(**kwargs)
        self.likelihood: Any = likelihoods.get(likelihood)
        self.units = units
        self._options = {
            "conditioning": conditioning,
            "dimension": dimension,
            "isolated": isolated,
            "normalize": normalize,
            "hidden_units": hidden_units,
            "initial": initial,
            "learning_rate_multiplier": learning_rate_multiplier,
            "weight_decay": weight_decay,
            "clipnorm": clipnorm,
            "constraint": constraint,
        }
        parameters = self.likelihood.parameters
        is_location_scale = issubclass(self.likelihood, LocationScale)
        chosen = {}
        for p in parameters:
            is_scale = is_location_scale and p.constraint == SCALE
            own = ShiftedSoftplus(0.001) if is_scale else p.constraint
            given = self._option("constraint", p.name)
            chosen[p.name] = constraints.get(own if given is None else given)
        self._options["constraint"] = chosen
        self._is_constrained = activation is None
        dense = {
            "units": units,
            "activation": activation,
            "kernel_initializer": kernel_initializer,
            "kernel_regularizer": kernel_regularizer,
            "dtype": self.dtype_policy,
            "name": "prediction",
        }
        dense = self._quantized.get("prediction", dense)
        self.prediction = keras.layers.Dense.from_config(dense)
        self.parameter_layers = [
            self._make_parameter(p.name) for p in parameters
        ]
        self.target_units: Any = None
        if is_location_scale:
            # The centre and the spread of each channel.
            self.target_units = tuple(
                self.add_weight(
                    (units,), start, trainable=False, autocast=False
                )
                for start in ("zeros", "ones")
            )
        self.supports_masking = True

    def adapt(self, y: Any, *, sample_weight: Any = None) -> None:
        """Adapts the head to the units of the targets. Call it before `fit`.

            prediction = centre + spread * prediction'
            scale = spread * scale'

        The network then learns the primed values, as if the targets were
        standardised. Predictions, scales and the loss are in the units of `y`,
        `initial` and the constraint of the scale in units of the spread.

        For each channel, the centre is the median and the spread is 1.4826
        times the median absolute deviation, or the standard deviation if more
        than half of the targets are equal. A scale of dimension `"scalar"` has
        one spread for all channels. A likelihood without a location and a
        scale starts at the mean of `y` if it has a `prediction_constraint`.

        Args:
            y: targets `(n, ..., units)`, or `(n, ...)` for one unit; or a
                dataset with batches `y`, `(x, y)` or `(x, y, sample_weight)`.
            sample_weight: weights `>= 0`, `(n,)` or `(n, ...)`, or `None`.
        """
        y, weight = collect_targets(y, sample_weight)
        linear = self.prediction.activation is keras.activations.linear
        constraint = self.likelihood.prediction_constraint
        has_mean = constraint is not None and not self.likelihood.event_rank
        if not linear or not (self.target_units or has_mean):
            raise ValueError(
                "`adapt` needs a likelihood with a location and a scale, "
                "such as 'normal', and a head without an activation. Received: "
                f"{self.likelihood.name()!r} and "
                f"{keras.activations.serialize(self.prediction.activation)}"
            )
        if self.target_units is not None:
            shared = self._option("dimension", "scale") == "scalar"
            units = centre_and_spread(y, self.units, weight, one_spread=shared)
            for variable, value in zip(self.target_units, units, strict=True):
                variable.assign(value)
            return
        if not self.prediction.built:
            raise ValueError(
                "Call the head before `adapt` for this likelihood. "
                "Received: a head that is not built"
            )
        mean = np.average(y, axis=0, weights=weight)
        mean = np.reshape(mean, (-1, self.units)).mean(0)
        self.prediction.bias.assign(constraint.inverse(mean))

    def _make_parameter(self, name: str) -> Any:
        options = {o: self._option(o, name) for o in self._options}
        conditioning = options.pop("conditioning")
        allowed = "'predicted' or 'global'. Pass data parameters to the loss"
        fits = conditioning in ("predicted", "global")
        check_argument("conditioning", conditioning, fits, allowed)
        options |= {"name": name, "dtype": self.dtype_policy}
        if conditioning == "predicted":
            options["quantized"] = self._quantized.get(name)
            kind = self.likelihood
            return PredictedParameter(kind, name, self.units, **options)
        for option in ("isolated", "normalize", "hidden_units"):
            del options[option]
        return GlobalParameter(**options).bind(self.likelihood, name)

    def _option(self, option: str, name: str) -> Any:
        """The value of an option for one parameter."""
        value = self._options[option]
        if not isinstance(value, dict) or "class_name" in value:
            return value
        names = [p.name for p in self.likelihood.parameters]
        unknown = sorted(set(value) - set(names))
        allowed = f"for parameters in {names}"
        check_argument(option, unknown, not unknown, allowed)
        signature = inspect.signature(LikelihoodHead.__init__)
        return value.get(name, signature.parameters[option].default)

    def build(self, input_shape: Shape) -> None:
        self.prediction.build(input_shape)
        for parameter in self.parameter_layers:
            if isinstance(parameter, PredictedParameter):
                parameter.build(input_shape)
            else:
                parameter.build((*input_shape[:-1], self.units))

    def compute_output_shape(self, input_shape: Shape) -> Any:
        shape = (*input_shape[:-1], self.units)
        parameters = [
            (shape[0], *self.likelihood.shape_of(p.name, shape, p.dimension))
            for p in self.parameter_layers
        ]
        return (shape, *parameters) if parameters else shape

    def compute_output_spec(self, features: Any, **_: Any) -> Any:
        def spec(shape: Shape) -> Any:
            return keras.KerasTensor(shape, dtype=self.variable_dtype)

        shapes = self.compute_output_shape(features.shape)
        return keras.tree.map_shape_structure(spec, shapes)

    def call(
        self, features: Tensor, training: bool | None = None, mask: Any = None
    ) -> Any:
        prediction = ops.cast(self.prediction(features), self.variable_dtype)
        constraint = self.likelihood.prediction_constraint
        if self._is_constrained and constraint is not None:
            prediction = constraint(prediction)
        parameters = [
            parameter(features, training=training, mask=mask)
            if isinstance(parameter, PredictedParameter)
            else parameter(prediction)
            for parameter in self.parameter_layers
        ]
        if self.target_units is not None:
            centre, spread = self.target_units
            prediction = centre + spread * prediction
            at = [p.name for p in self.likelihood.parameters].index("scale")
            # One scale for all units has one spread.
            width = parameters[at].shape[-1]
            parameters[at] = parameters[at] * spread[:width]
        return (prediction, *parameters) if parameters else prediction

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        dense = self.prediction.get_config()
        names = ("activation", "kernel_initializer", "kernel_regularizer")
        config = {
            **super().get_config(),
            "likelihood": self.likelihood.name(),
            "units": self.units,
            **self._options,
            "constraint": serialize(self._options["constraint"]),
            **{name: dense[name] for name in names},
        }
        if self._is_constrained:
            config["activation"] = None
        layers = {"prediction": self.prediction}
        for parameter in self.parameter_layers:
            layers[parameter.name] = getattr(parameter, "hidden", None)
        if quantized := quantized_configs(layers):
            config["quantized"] = quantized
        return config


@serializable
class ScaleHead(LikelihoodHead):
    """Maps features to `(prediction, scale)`, for normal or Laplace losses.

    ```python
    outputs = kl.layers.ScaleHead(1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.NormalLoss())
    prediction, scale = model.predict(x)
    ```

    Args:
        units: size of the prediction's last axis.
        likelihood: a likelihood whose only parameter is a scale, such as
            `"normal"` (default) or `"laplace"`.
        **options: options of `LikelihoodHead`.
    """

    def __init__(
        self, units: int, *, likelihood: Any = "normal", **options: Any
    ) -> None:
        super().__init__(likelihood, units, **options)


@serializable
class TemperatureHead(LikelihoodHead):
    """Maps features to `(logits, temperature)`, for softmax or Bernoulli loss.

    Args:
        units: number of classes (softmax) or of binary outcomes (Bernoulli).
        likelihood: `"softmax"` (default) or `"bernoulli"`.
        **options: options of `LikelihoodHead`.
    """

    def __init__(
        self, units: int, *, likelihood: Any = "softmax", **options: Any
    ) -> None:
        super().__init__(likelihood, units, **options)


@serializable
class RobustRhoHead(LikelihoodHead):
    """Maps features to `(prediction, shape, scale)`, for `RobustRhoLoss`.

    Args:
        units: size of the prediction's last axis.
        likelihood: `"robust_rho"` (default), or another likelihood with a
            shape and a scale.
        **options: options of `LikelihoodHead`.
    """

    def __init__(
        self, units: int, *, likelihood: Any = "robust_rho", **options: Any
    ) -> None:
        super().__init__(likelihood, units, **options)


@serializable
class QuantilesHead(LikelihoodHead):
    """Maps features to `(quantiles, scale)`, for `QuantilesLoss`.

    Each quantile is the previous one plus a softplus, so they never cross.

    Args:
        levels: increasing, each in (0, 1).
        **options: options of `LikelihoodHead`.
    """

    def __init__(self, levels: Any, **options: Any) -> None:
        made = likelihoods.Quantiles(levels)
        super().__init__(made, units=len(made.levels), **options)

    def get_config(self) -> dict[str, Any]:
        config = {**super().get_config(), "levels": self.likelihood.levels}
        del config["likelihood"], config["units"]
        return config
