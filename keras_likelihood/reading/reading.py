"""Reads the predictions and likelihood parameters of any trained model."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.kept_values import keeping_values
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.constraints import Constraint
from keras_likelihood.layers import LikelihoodHead, PredictedParameter
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.likelihoods.output import (
    distribution_of,
    split_output,
)
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading.endings import deciding_layer, kind_of
from keras_likelihood.reading.loading import is_graph, load_model, output_of
from keras_likelihood.serving import LikelihoodPrediction


def parameter_layers(model: Any) -> Iterator[tuple[str, keras.Layer]]:
    """Parameter layers inside the model, with the parameter's name."""
    for layer in _walk(model, set()):
        if isinstance(layer, PredictedParameter):
            yield layer.parameter, layer
        elif isinstance(layer, LikelihoodHead):
            names = [p.name for p in layer.likelihood.parameters]
            yield from zip(names, layer.parameter_layers, strict=True)


def likelihood_beside(
    model: Any, beside: list[Tensor], key: str = ""
) -> tuple[Any, LikelihoodHead | None]:
    """The likelihood of a model without a loss, and its head.

    A calibrated regressor has a layer with the name of the likelihood instead.
    """
    if not beside:
        return None, None
    if is_graph(model):
        for layer in reversed(model.layers):
            if isinstance(layer, LikelihoodPrediction):
                return likelihoods.get(layer.likelihood), None
    layers = _walk(_layer_behind(model, key, 0), set())
    heads = [layer for layer in layers if isinstance(layer, LikelihoodHead)]
    return (heads[0].likelihood, heads[0]) if len(heads) == 1 else (None, None)


def too_many_outputs(count: int) -> ValueError:
    """The error for a model with several outputs."""
    return ValueError(
        "`model` must have one output: a prediction, with or without the "
        f"parameters of one head. Received: {count} outputs"
    )


def _layer_behind(model: Any, key: str, position: int) -> Any:
    """The layer that computes a tensor of the output, or the model itself."""
    if not is_graph(model):
        return model
    output = output_of(model)
    output = output[key] if key else output
    if isinstance(output, dict):
        (output,) = output.values()
    prediction, beside = split_output(output)
    return deciding_layer([prediction, *beside][position])[0]


def _walk(layer: Any, seen: set[int]) -> Iterator[Any]:
    if id(layer) not in seen:
        seen.add(id(layer))
        yield layer
        for inner in getattr(layer, "layers", ()):
            yield from _walk(inner, seen)


@dataclasses.dataclass
class ReadParameter:
    """Values of one parameter, and where they come from.

    `source` is `"fixed"`, `"global"`, `"data"` or `"predicted"`. The constraint
    and `initial` are in multiples of `unit`, which `adapt` of a head learns.
    """

    name: str
    source: str
    values: Array
    constraint: Constraint
    initial: float
    unit: float = 1.0

    @property
    def learned(self) -> bool:
        return self.source != "fixed"


@dataclasses.dataclass
class Reading:
    """One output of a model, `(n, ..., units)`, with its likelihood."""

    key: str
    prediction: Array
    likelihood: Any = None
    parameters: list[ReadParameter] = dataclasses.field(default_factory=list)
    loss: object = None
    kind: str | None = None
    y: Array | None = None

    @property
    def title(self) -> str:
        """The name of the output for messages, empty for a single output."""
        return f" of output {self.key!r}" if self.key else ""

    @property
    def is_real(self) -> bool:
        """Whether targets are numbers around a prediction."""
        return hasattr(self.likelihood, "standard_nll")

    @property
    def data_parameters(self) -> dict[str, Any]:
        """The `DataParameter`s of the loss, by name."""
        return dict(getattr(self.loss, "data_parameters", {}))

    @property
    def uncertainty_parameter(self) -> str:
        """Name of the parameter that measures the uncertainty."""
        names = [p.name for p in getattr(self.likelihood, "parameters", ())]
        if known := {"scale", "temperature"}.intersection(names):
            return known.pop()
        raise ValueError(
            "The model must have a likelihood with a temperature or a scale. "
            f"Received: {self.likelihood and self.likelihood.name()}, {names}"
        )

    def without_data_parameters(self) -> "Reading":
        """The same reading without the data parameters."""
        shared = [p for p in self.parameters if p.source != "data"]
        return dataclasses.replace(self, parameters=shared)

    def parameter(self, name: str) -> ReadParameter | None:
        """The parameter of this name, or `None`."""
        return next((p for p in self.parameters if p.name == name), None)

    def distribution(self) -> Likelihood:
        """The likelihood around the predictions, of NumPy arrays."""
        values = {p.name: p.values for p in self.parameters}
        return self.likelihood(self.prediction, **values).as_numpy()

    def nll(self, y: Any) -> Array:
        """Mean negative log-likelihood of each example's targets, `(n,)`."""
        nll = self.distribution().nll(y)
        return nll.reshape(len(nll), -1).mean(axis=1)


def per_example(values: Any) -> Array:
    """The geometric mean of each example's scales, `(n,)`."""
    # A likelihood contains the logarithm of a scale.
    logs = np.log(np.asarray(values, "float64"))
    return np.exp(logs.reshape(len(logs), -1).mean(axis=1))


def read_model(model: Any, x: Any, *, batch_size: int = 256) -> list[Reading]:
    """Runs a model or `.keras` file once and reads every output."""
    model = load_model(model)
    with keeping_values(model):
        output = model.predict(x, batch_size=batch_size, verbose=0)
    outputs = output if isinstance(output, dict) else {"": output}
    losses = getattr(model, "loss", None)
    if not isinstance(losses, dict):
        losses = dict.fromkeys(outputs, losses)
    return [_read(model, k, v, losses.get(k)) for k, v in outputs.items()]


def read_output(model: Any, x: Any, *, batch_size: int = 256) -> Reading:
    """Runs a model with one output once; see `read_model`."""
    readings = read_model(model, x, batch_size=batch_size)
    if len(readings) > 1:
        raise too_many_outputs(len(readings))
    return readings[0]


def _read(model: Any, key: str, output: Any, loss: Any) -> Reading:
    prediction, beside = split_output(output)
    reading = Reading(key, np.asarray(prediction), loss=loss)
    if is_graph(model):
        tensors = output_of(model)
        tensors = tensors[key] if key else tensors
        reading.kind = kind_of(split_output(tensors)[0])
    named, head = likelihood_beside(model, beside, key)
    if isinstance(loss, LikelihoodLoss):
        fitted = loss.distribution(output)
        sources = loss.sources(len(beside))
    elif named is not None:
        fitted = distribution_of(named, output)
        sources = {p.name: "predicted" for p in named.parameters}
    elif beside:
        raise too_many_outputs(1 + len(beside))
    else:
        return reading
    reading.likelihood = type(fitted)
    units = getattr(head, "target_units", None)
    in_output = [name for name, s in sources.items() if s == "predicted"]
    for name, source in sources.items():
        declared = reading.likelihood.parameter(name)
        if source == "predicted":
            behind = _layer_behind(model, key, 1 + in_output.index(name))
            layers = [v for n, v in parameter_layers(behind) if n == name]
            layer = layers[0] if len(layers) == 1 else None
        else:
            learned = {**loss.data_parameters, **loss.learned_beside()}
            layer = learned.get(name)
        constraint = getattr(layer, "constraint", None) or declared.constraint
        initial = getattr(layer, "initial", None)
        initial = declared.initial if initial is None else initial
        data = reading.data_parameters.get(name)
        if data is not None and data.num_examples == len(reading.prediction):
            values = data.values()
            values = values.reshape(len(values), *data.row_shape)
        else:
            values = keras.ops.convert_to_numpy(getattr(fitted, name))
        parameter = ReadParameter(name, source, values, constraint, initial)
        if name == "scale" and units is not None:
            spread = keras.ops.convert_to_numpy(units.spread)
            parameter.unit = float(np.mean(spread))
        reading.parameters.append(parameter)
    return reading
