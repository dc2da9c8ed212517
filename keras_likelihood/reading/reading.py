"""Reads the predictions and likelihood parameters of any trained model."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.backend.kept_values import keeping_values
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.constraints import Constraint
from keras_likelihood.layers import LikelihoodHead, PredictedParameter
from keras_likelihood.likelihoods import Bernoulli, Likelihood, Normal, Softmax
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.output import distribution_of, split_output
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.reading.endings import (
    PROBABILITIES,
    deciding_layer,
    kind_of,
)
from keras_likelihood.reading.loading import is_graph, load_model, output_of
from keras_likelihood.reading.targets import is_one_hot, log_probabilities
from keras_likelihood.serving import LikelihoodPrediction

_REGRESSION = ("squared", "absolute", "mse", "mae", "huber", "cosh")


def task_of_loss(loss: Any) -> str | None:
    """The task of a compiled Keras loss, if its name reveals it."""
    name = _name(loss)
    if "crossentropy" in name or "cross_entropy" in name:
        return "classification"
    return "regression" if any(w in name for w in _REGRESSION) else None


def returns_logits(kind: str | None, loss: Any, layer: str) -> bool:
    """Whether a classifier returns logits, by the kind of its last layer."""
    if kind is not None:
        return kind == "linear"
    if task_of_loss(loss) != "classification":
        raise ValueError(
            "The last layer must be a softmax, a sigmoid or linear. For other "
            "layers pass `from_logits=True` or `from_logits=False`. "
            f"Received: {layer}"
        )
    config = loss.get_config() if hasattr(loss, "get_config") else {}
    return bool(config.get("from_logits", False))


def is_binary(kind: str | None, loss: Any) -> bool:
    """Whether the outputs of a classifier are independent binary labels."""
    return kind == "sigmoid" or (kind is None and "binary" in _name(loss))


def _name(loss: Any) -> str:
    if loss is None or isinstance(loss, dict | list | tuple):
        return ""
    if not isinstance(loss, str):
        loss = getattr(loss, "__name__", type(loss).__name__)
    return str(loss).lower()


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


@dataclass
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


@dataclass
class Reading:
    """One output of a model, `(n, ..., units)`, with its likelihood."""

    key: str
    prediction: Array
    likelihood: Any = None
    parameters: list[ReadParameter] = field(default_factory=list)
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

    def with_likelihood(
        self, y: Array, task: str | None = None, from_logits: bool | None = None
    ) -> "Reading":
        """The same reading with a likelihood, in which classes are logits."""
        if self.likelihood is not None:
            return self
        output = self.prediction.astype("float64")
        output = output[:, None] if output.ndim == 1 else output
        task = task or _task(self, from_logits, output, y)
        if task == "regression":
            return replace(self, prediction=output, likelihood=Normal)
        kind = self.kind
        several = is_binary(kind, self.loss)
        if from_logits is None:
            from_logits = returns_logits(kind, self.loss, "another layer")
        fits = not from_logits or kind not in PROBABILITIES
        allowed = f"False, because the last layer is a {kind}"
        check_argument("from_logits", from_logits, fits, allowed)
        if not from_logits:
            low, high = output.min(), output.max()
            fits, received = (
                low >= 0 and high <= 1.001,
                f"{low:.3g} to {high:.3g}",
            )
            check_argument("outputs", received, fits, "probabilities in [0, 1]")
            each = output[..., None] if several else output
            output = log_probabilities(each, 1e-12).reshape(output.shape)
        likelihood = Bernoulli if several or output.shape[-1] == 1 else Softmax
        return replace(self, prediction=output, likelihood=likelihood)

    def without_data_parameters(self) -> "Reading":
        """The same reading without the data parameters."""
        shared = [p for p in self.parameters if p.source != "data"]
        return replace(self, parameters=shared)

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
        constraint = getattr(layer, "map", declared.constraint)
        initial = getattr(layer, "start", declared.initial)
        data = reading.data_parameters.get(name)
        if data is not None and data.num_examples == len(reading.prediction):
            values = data.values()
            values = values.reshape(len(values), *data.row_shape)
        else:
            values = keras.ops.convert_to_numpy(getattr(fitted, name))
        parameter = ReadParameter(name, source, values, constraint, initial)
        if name == "scale" and units is not None:
            spread = keras.ops.convert_to_numpy(units[1])
            parameter.unit = float(np.mean(spread))
        reading.parameters.append(parameter)
    return reading


def _task(
    reading: Reading, from_logits: bool | None, output: Array, y: Array
) -> str:
    if reading.kind in PROBABILITIES or from_logits is not None:
        return "classification"
    if named := task_of_loss(reading.loss):
        return named
    if y.dtype.kind == "f" and not np.array_equal(y, np.round(y)):
        return "regression"
    if output.shape[-1] > 1 and (y.size == len(y) or is_one_hot(y)):
        return "classification"
    if output.shape[-1] == 1 and len(np.unique(y)) > 2:
        # A single output has only two classes.
        return "regression"
    raise ValueError(
        "Whole numbers may be classes or quantities, and the linear output "
        f"{output.shape} fits both. Pass `task='classification'` or "
        "`task='regression'`. Received: task=None"
    )
