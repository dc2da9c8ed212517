"""Layers for likelihood parameters, either global or predicted."""

import functools
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import constraints, likelihoods
from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.gradients import clip_gradient, scale_step
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Shape, Tensor
from keras_likelihood.layers.target_units import centre_and_spread
from keras_likelihood.likelihoods.checks import check_argument


@functools.cache
def _compiled(constraint: Any) -> Any:
    """A constraint as one program; eager JAX compiles its operations apart."""
    is_jax = keras.backend.backend() == "jax"
    return compiled(constraint.__call__) if is_jax else constraint


class ParameterLayer(keras.Layer):
    """Base class of the layers for one parameter; see `LikelihoodHead`."""

    likelihood: Any = None
    parameter: Any = None
    unit: Any = None
    """Unit of a value, which `LikelihoodModel.adapt` sets, or `None`."""

    def __init__(
        self,
        *,
        dimension: str,
        initial: float | tuple[float, ...] | None = None,
        constraint: Any = None,
        learning_rate_multiplier: float = 1.0,
        weight_decay: float = 0.0,
        clipnorm: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        factor = learning_rate_multiplier
        check_argument("learning_rate_multiplier", factor, factor > 0, "> 0")
        check_argument("weight_decay", weight_decay, weight_decay >= 0, ">= 0")
        is_norm = clipnorm is None or clipnorm > 0
        check_argument("clipnorm", clipnorm, is_norm, "> 0 or None")
        self.initial: Any = initial
        self.constraint = constraint and constraints.get(constraint)
        self.dimension = dimension
        self.learning_rate_multiplier = float(learning_rate_multiplier)
        self.weight_decay = float(weight_decay)
        self.clipnorm = clipnorm and float(clipnorm)
        self.supports_masking = True

    def declare(self, likelihood: Any, name: str) -> Any:
        """Takes defaults from a parameter of a likelihood; returns it."""
        self.likelihood, self.parameter = likelihoods.get(likelihood), name
        declared = self.likelihood.parameter(name)
        # The arguments stay in the config as they are.
        self.map = self.constraint or declared.constraint
        self.start = declared.initial if self.initial is None else self.initial
        return declared

    def add_controlled_weight(
        self, name: str, shape: Any, start: Any = 0.0
    ) -> Any:
        """Adds a weight for which `read` initially returns `start`."""
        if self.clipnorm is not None and "mixed_float16" in (
            self.dtype_policy.name,
            keras.config.dtype_policy().name,
        ):
            raise ValueError(
                "`clipnorm` must be None with 'mixed_float16', which scales "
                "the loss. Use 'mixed_bfloat16' or the clipping of the "
                f"optimizer. Received: clipnorm={self.clipnorm}"
            )
        start = np.broadcast_to(np.asarray(start, "float64"), shape)
        factor = self.learning_rate_multiplier
        stored = start / factor

        def decay(weight: Any) -> Any:
            value = scale_step(weight, factor)
            origin = ops.convert_to_tensor(start, dtype=value.dtype)
            return self.weight_decay * ops.sum(ops.square(value - origin))

        return self.add_weight(
            shape,
            lambda shape, dtype: ops.convert_to_tensor(stored, dtype=dtype),
            regularizer=decay if self.weight_decay else None,
            name=name,
        )

    def read(self, weight: Any) -> Tensor:
        """The value of a weight created by `add_controlled_weight`."""
        weight = scale_step(weight, self.learning_rate_multiplier)
        if self.clipnorm is None:
            return weight
        return clip_gradient(weight, self.clipnorm)

    def get_config(self) -> dict[str, Any]:
        names = ["initial", "dimension", "learning_rate_multiplier"]
        names += ["weight_decay", "clipnorm"]
        own = {name: getattr(self, name) for name in names}
        own["constraint"] = keras.saving.serialize_keras_object(self.constraint)
        return {**super().get_config(), **own}


@serializable
class GlobalParameter(ParameterLayer):
    """A learned likelihood parameter that does not depend on the input.

        value = constraint(u),    u learned, constraint(u at start) = initial

    Pass it to a loss instead of `"global"` to set how the value is learned:

    ```python
    scale = kl.layers.GlobalParameter(initial=0.1, dimension="channel")
    model.compile("adam", loss=kl.losses.NormalLoss(scale=scale))
    ```

    Args:
        dimension: `"scalar"` (one value), `"channel"` (one per entry of the
            prediction's last axis) or `"element"` (one per element of an
            example's prediction). Defaults to `"scalar"`.
        **options: `initial`, `constraint`, `learning_rate_multiplier`,
            `weight_decay` and `clipnorm`, as in `LikelihoodHead`.
    """

    def __init__(self, *, dimension: str = "scalar", **options: Any) -> None:
        super().__init__(dimension=dimension, **options)

    def bind(
        self, likelihood: Any, name: str, *, has_unit: bool = False
    ) -> "GlobalParameter":
        """Assigns the layer to a parameter of a likelihood; returns self."""
        likelihood = likelihoods.get(likelihood)
        if (self.likelihood, self.parameter) == (likelihood, name):
            return self
        if self.likelihood is not None:
            raise ValueError(
                "A GlobalParameter must not be used for two parameters. It is "
                f"{self.parameter!r} of {self.likelihood.name()}. "
                f"Received: {name!r} of {likelihood.name()}"
            )
        self._has_unit: bool = has_unit
        declared = self.declare(likelihood, name)
        if self.dimension == "scalar" and declared.size is None:
            self._add_weight(())
        return self

    def build(self, input_shape: Shape) -> None:
        if self.likelihood is None:
            raise ValueError(
                "A GlobalParameter must be passed to a loss or a head before "
                "it is called. Received: a call without a loss or head"
            )
        if not self.built:
            shape_of = self.likelihood.shape_of
            shape = shape_of(self.parameter, input_shape, self.dimension)
            self._add_weight(shape)

    def _add_weight(self, shape: Any) -> None:
        start = np.resize(self.map.inverse(self.start), shape)
        weight = self.add_controlled_weight("unconstrained", shape, start)
        self.unconstrained, self.built = weight, True
        if self._has_unit:
            size, options = shape[-1:], {"trainable": False, "name": "unit"}
            self.unit = self.add_weight(size, "ones", **options)

    def adapt(self, y: Any, units: int, sample_weight: Any = None) -> None:
        """Sets the unit of each channel to the spread of its targets."""
        size = tuple(self.unit.shape)
        options = {"one_spread": not size}
        _, spread = centre_and_spread(y, units, sample_weight, **options)
        self.unit.assign(np.resize(spread, size))

    def value(self) -> Tensor:
        """The current value, a scalar or the parameter of one example."""
        stored = ops.convert_to_tensor(self.read(self.unconstrained))
        value = _compiled(self.map)(stored)
        return value if self.unit is None else value * self.unit

    @property
    def latest(self) -> Any:
        """The current value as a number or NumPy array.

        Before the layer is built it is the initial value. Assign a value to
        set the parameter.
        """
        if not self.built:
            return self.start
        value: Array = ops.convert_to_numpy(self.value())
        return value if value.ndim else float(value)

    @latest.setter
    def latest(self, value: Tensor) -> None:
        value = np.asarray(value, "float64")
        if self.unit is not None:
            value = value / ops.convert_to_numpy(self.unit)
        unconstrained = self.map.inverse(value)
        stored = unconstrained / self.learning_rate_multiplier
        self.unconstrained.assign(np.reshape(stored, self.unconstrained.shape))

    @property
    def is_fresh(self) -> bool:
        """Whether the value is still the likelihood's initial value."""
        latest = self.latest
        return self.initial is None and np.allclose(
            latest, np.resize(self.start, np.shape(latest)), rtol=1e-6
        )

    def call(self, prediction: Tensor) -> Any:
        """The value, repeated for each example: `(batch, 1 or dim, ...)`."""
        value = self.value()
        shape = tuple(value.shape) or (1,) * (len(prediction.shape) - 1)
        return ops.broadcast_to(value, (ops.shape(prediction)[0], *shape))

    def get_build_config(self) -> Any:
        # The loss or head that owns this layer builds it.
        return None


@serializable
class PredictedParameter(ParameterLayer):
    """Predicts one parameter of a likelihood for every example.

        value = constraint(features @ kernel + bias)

    With `hidden_units` the features are replaced by `relu(features @ W + b)`.
    The kernel starts at zero and the bias at `constraint^-1(initial)`, so
    training starts from the ordinary loss. On feature maps the product is a
    1x1 convolution. For the dimensions `"scalar"` and `"channel"` it is
    averaged over the unmasked positions.

    Use the layer on its own if a parameter should depend on other features than
    the prediction `(batch, ..., units)`, with which its output broadcasts.

    ```python
    scale = kl.layers.PredictedParameter("normal", "scale", units=1)(inputs)
    model = kl.LikelihoodModel(inputs, (prediction, scale))
    ```

    Args:
        likelihood: a `Likelihood` or its name.
        parameter: name of one of its parameters.
        units: size of the last axis of the prediction.
        dimension, isolated, normalize, hidden_units: as in `LikelihoodHead`.
        **options: `initial`, `constraint`, `learning_rate_multiplier`,
            `weight_decay` and `clipnorm`, as in `LikelihoodHead`.
    """

    def __init__(
        self,
        likelihood: Any,
        parameter: str,
        units: int,
        *,
        dimension: str = "element",
        isolated: bool = False,
        normalize: str | None = None,
        hidden_units: int | None = None,
        **options: Any,
    ) -> None:
        quantized = options.pop("quantized", None)
        super().__init__(dimension=dimension, **options)
        is_size = hidden_units is None or hidden_units >= 1
        check_argument("hidden_units", hidden_units, is_size, ">= 1 or None")
        self.declare(likelihood, parameter)
        self.units, self.normalize = units, normalize
        self.isolated, self.hidden_units = isolated, hidden_units
        self._bias_start = self.map.inverse(self.start)
        self.normalization = _normalization(normalize, self.dtype_policy)
        self.hidden = None
        if hidden_units is not None:
            dense = {"units": hidden_units, "activation": "relu"}
            dense |= {"dtype": self.dtype_policy, "name": "hidden"}
            self.hidden = keras.layers.Dense.from_config(quantized or dense)

    def build(self, input_shape: Shape) -> None:
        shape = (*input_shape[:-1], self.units)
        shape = self.likelihood.shape_of(self.parameter, shape, self.dimension)
        if self.normalization is not None:
            self.normalization.build(input_shape)
        if self.hidden is not None:
            self.hidden.build(input_shape)
            input_shape = (*input_shape[:-1], self.hidden_units)
        size, add = shape[-1:], self.add_controlled_weight
        self.kernel = add("kernel", (input_shape[-1], *size))
        self.bias = add("bias", size, np.resize(self._bias_start, size))

    def call(
        self, features: Tensor, training: bool | None = None, mask: Any = None
    ) -> Any:
        if self.isolated:
            features = ops.stop_gradient(features)
        if self.normalize == "batch":
            options = {"training": training, "mask": mask}
            features = self.normalization(features, **options)
        elif self.normalization is not None:
            features = self.normalization(features)
        if self.hidden is not None:
            features = self.hidden(features)
        if len(features.shape) > 2 and self.dimension != "element":
            features = _mean_over_positions(features, mask)
        kernel = ops.cast(self.read(self.kernel), features.dtype)
        product = ops.cast(ops.matmul(features, kernel), self.variable_dtype)
        return self.map(product + self.read(self.bias))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        return previous_mask if self.dimension == "element" else None

    def get_config(self) -> dict[str, Any]:
        names = ("parameter", "units", "isolated", "normalize", "hidden_units")
        own = {name: getattr(self, name) for name in names}
        own["likelihood"] = self.likelihood.name()
        own |= quantized_configs({"quantized": self.hidden})
        return {**super().get_config(), **own}


def quantized_configs(layers: dict[str, Any]) -> dict[str, Any]:
    """Configs of the layers that Keras has quantized."""
    return {
        name: layer.get_config()
        for name, layer in layers.items()
        if layer is not None and layer.quantization_mode
    }


def _mean_over_positions(features: Tensor, mask: Any) -> Any:
    weight = ops.ones_like(features[..., :1])
    if mask is not None:
        missing = (1,) * (len(features.shape) - len(mask.shape))
        mask = ops.reshape(mask, (*ops.shape(mask), *missing))
        weight = weight * ops.cast(mask, weight.dtype)
    total, count = (
        ops.sum(v, axis=tuple(range(1, len(v.shape) - 1)), keepdims=True)
        for v in (weight * features, weight)
    )
    return ops.divide_no_nan(total, count)


def _normalization(kind: Any, dtype: Any) -> Any:
    if kind is None:
        return None
    kinds = {
        "layer": keras.layers.LayerNormalization,
        "batch": keras.layers.BatchNormalization,
    }
    check_argument("normalize", kind, kind in kinds, "'layer', 'batch' or None")
    return kinds[kind](center=False, scale=False, dtype=dtype)
