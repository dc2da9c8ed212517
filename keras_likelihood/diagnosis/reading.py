"""What a model says about the data, one output at a time."""

import dataclasses

import keras
import numpy as np

from keras_likelihood.constraints import Constraint
from keras_likelihood.data_parameters.indexed import split_index
from keras_likelihood.diagnosis.parameter_layers import constraint_and_start
from keras_likelihood.likelihoods import Likelihood
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss

_SEQUENCE = (list, tuple)


@dataclasses.dataclass
class ParameterReading:
    """Values of one parameter, and where they come from."""

    name: str
    source: str
    """`"fixed"`, `"global"`, `"data"` or `"predicted"`."""
    values: np.ndarray
    constraint: Constraint
    initial: float

    @property
    def learned(self) -> bool:
        return self.source != "fixed"


@dataclasses.dataclass
class OutputReading:
    """One output with its loss, its targets and its parameters."""

    key: str
    loss: LikelihoodLoss
    prediction: np.ndarray
    y: np.ndarray
    parameters: list[ParameterReading]
    leaves: int

    @property
    def title(self) -> str:
        """How to speak of it: nothing for the only output."""
        return f" of output {self.key!r}" if self.key else ""

    @property
    def is_real(self) -> bool:
        """Whether targets are numbers around a prediction."""
        likelihood = self.loss.likelihood
        return hasattr(likelihood, "standard_nll")

    def distribution(self, rows=slice(None)) -> Likelihood:
        """The likelihood around the predictions of these rows."""
        count = len(self.prediction)
        values = {}
        for parameter in self.parameters:
            value = parameter.values
            if value.ndim and len(value) == count > 1:
                value = value[rows]
            values[parameter.name] = value
        return self.loss.likelihood(self.prediction[rows], **values)

    def nll(self) -> np.ndarray:
        """Mean negative log-likelihood of each example, `(n,)`."""
        nll = keras.ops.convert_to_numpy(self.distribution().nll(self.y))
        return nll.reshape(len(nll), -1).mean(axis=1)


def read_outputs(model, x, y, batch_size) -> list[OutputReading]:
    """Predicts once and takes every likelihood output apart."""
    losses = _losses(getattr(model, "loss", None))
    if not losses:
        raise ValueError(
            "`model` must be compiled with a likelihood loss, such as "
            "`kl.losses.NormalLoss()`. Received: "
            f"loss={getattr(model, 'loss', None)}"
        )
    y = split_index(y)[0]
    predicted = model.predict(x, batch_size=batch_size, verbose=0)
    return [
        _read(
            model,
            key,
            loss,
            predicted[key] if key else predicted,
            y[key] if key and isinstance(y, dict) else y,
        )
        for key, loss in losses.items()
    ]


def _losses(loss):
    if isinstance(loss, LikelihoodLoss):
        return {"": loss}
    if isinstance(loss, dict):
        return {k: v for k, v in loss.items() if isinstance(v, LikelihoodLoss)}
    return {}


def _read(model, key, loss, predicted, y):
    leaves = predicted if isinstance(predicted, _SEQUENCE) else [predicted]
    prediction, *rest = [np.asarray(leaf) for leaf in leaves]
    y = np.asarray(y)
    if y.shape == prediction.shape[:-1] and prediction.shape[-1] == 1:
        y = y[..., None]
    if len(y) != len(prediction) or len(y) == 0:
        raise ValueError(
            "`y` must have a target for every example. "
            f"Received: {len(y)} targets for {len(prediction)} examples"
        )
    distribution = loss.distribution([prediction, *rest])
    sources = _sources(loss, bool(rest))
    parameters = [
        ParameterReading(
            declared.name,
            sources[declared.name],
            _values(loss, declared.name, distribution, prediction.shape),
            *constraint_and_start(model, key, loss, position),
        )
        for position, declared in enumerate(loss.likelihood.parameters)
    ]
    return OutputReading(key, loss, prediction, y, parameters, len(leaves))


def _sources(loss, from_output):
    config = loss.get_config()
    sources = {}
    for declared in loss.likelihood.parameters:
        given = config[declared.name]
        if declared.name in loss.data_parameters:
            source = "data"
        elif given is None:
            source = "predicted" if from_output else "global"
        else:
            source = "fixed" if isinstance(given, float) else "global"
        sources[declared.name] = source
    return sources


def _values(loss, name, distribution, shape):
    data = loss.data_parameters.get(name)
    if data is not None and data.num_examples == shape[0]:
        values = data.values()
        return values.reshape(len(values), *data.rows.shape)
    return keras.ops.convert_to_numpy(getattr(distribution, name))
