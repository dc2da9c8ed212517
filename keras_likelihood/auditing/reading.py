"""What a trained model says about its data, whatever kind it is."""

import dataclasses
import os

import keras
import numpy as np

from keras_likelihood.auditing.last_layer import last_layer_kind, task_of_loss
from keras_likelihood.layers.likelihood_head import LikelihoodHead
from keras_likelihood.likelihoods import Bernoulli, Normal, Softmax
from keras_likelihood.losses.likelihood_loss import LikelihoodLoss
from keras_likelihood.models import LikelihoodModel

TASKS = ("classification", "regression")


@dataclasses.dataclass
class Reading:
    """A model's outputs as the pieces of a likelihood.

    Args:
        likelihood: class of the likelihood.
        prediction: logits or predicted values, `(n, ..., units)`.
        parameters: its known parameters, by name; each a number or an array
            that broadcasts with the prediction.
        data_parameters: the `DataParameter`s of its loss, by name.
    """

    likelihood: type
    prediction: np.ndarray
    parameters: dict = dataclasses.field(default_factory=dict)
    data_parameters: dict = dataclasses.field(default_factory=dict)

    @property
    def task(self) -> str:
        return TASKS[self.spread != "temperature"]

    @property
    def spread(self) -> str:
        """Name of the parameter that says how unsure the model is."""
        names = [p.name for p in self.likelihood.parameters]
        for name in ("temperature", "scale"):
            if name in names:
                return name
        raise ValueError(
            "An audit needs a likelihood with a temperature or a scale. "
            f"Received: {self.likelihood.name()} with {names}"
        )

    @property
    def classes(self) -> int | None:
        """Number of classes, or `None` for regression."""
        if self.task != "classification":
            return None
        return max(self.prediction.shape[-1], 2)

    def predicted_spread(self) -> np.ndarray | None:
        """Mean temperature or scale of each example `(n,)`, if they differ."""
        value = np.asarray(self.parameters.get(self.spread, 1.0), "float64")
        if value.ndim == 0 or len(value) != len(self.prediction):
            return None
        value = value.reshape(len(value), -1)
        return value.mean(axis=1) if np.ptp(value, axis=0).any() else None


def load(model) -> keras.Model:
    """Returns the model itself, or loads a `.keras` file in safe mode."""
    if isinstance(model, keras.Model):
        return model
    if not isinstance(model, str | os.PathLike):
        raise ValueError(
            "`model` must be a `keras.Model` or the path of a `.keras` file. "
            f"Received: {type(model).__name__}"
        )
    path = os.fspath(model)
    if not os.path.exists(path):
        raise ValueError(f"There is no such file. Received: {path!r}")
    loaded = keras.models.load_model(path, compile=False, safe_mode=True)
    if isinstance(loaded, LikelihoodModel):
        # Its loss holds what it learned; other losses may be anyone's code.
        loaded = keras.models.load_model(path, safe_mode=True)
    return loaded


def read_model(model, x, y, task, from_logits, batch_size) -> Reading:
    """Runs a model once and says which likelihood its output stands for.

    Args:
        model, x, y, task, from_logits, batch_size: as in `audit`.
    """
    if task not in (None, *TASKS):
        raise ValueError(
            f"`task` must be one of {TASKS} or None. Received: {task!r}"
        )
    model = load(model)
    output = model.predict(x, batch_size=batch_size, verbose=0)
    loss = getattr(model, "loss", None)
    if isinstance(output, dict) and len(output) == 1:
        ((key, output),) = output.items()
        loss = loss.get(key) if isinstance(loss, dict) else loss
    reading = _of_likelihood(model, loss, output)
    if reading is None:
        output = _single(output)
        kind = last_layer_kind(model)
        task = task or _task(kind, from_logits, loss, output, y)
        reading = _of_stock_model(task, kind, from_logits, output)
    _check(reading, task, len(y))
    return reading


def _of_likelihood(model, loss, output):
    if isinstance(loss, LikelihoodLoss):
        found = loss.distribution(output)
        likelihood, data = loss.likelihood, loss.data_parameters
        parameters = {
            p.name: keras.ops.convert_to_numpy(getattr(found, p.name))
            for p in likelihood.parameters
            if p.name not in data
        }
        prediction = keras.ops.convert_to_numpy(found.prediction)
        return Reading(likelihood, _double(prediction), parameters, data)
    layers = getattr(model, "layers", [])
    heads = [v for v in layers if isinstance(v, LikelihoodHead)]
    if len(heads) != 1 or not isinstance(output, list | tuple):
        return None
    likelihood = heads[0].likelihood
    prediction, *rest = map(_double, output)
    names = [p.name for p in likelihood.parameters]
    return Reading(likelihood, prediction, dict(zip(names, rest, strict=True)))


def _single(output):
    if isinstance(output, dict | list | tuple):
        raise ValueError(
            "`model` must have one output, or that of one head. "
            f"Received: {len(output)} outputs"
        )
    output = _double(output)
    return output[:, None] if output.ndim == 1 else output


def _task(kind, from_logits, loss, output, y):
    if kind in ("softmax", "sigmoid") or from_logits is not None:
        return "classification"
    named = task_of_loss(loss)
    if named:
        return named
    if y.dtype.kind == "f" and not np.array_equal(y, np.round(y)):
        return "regression"
    if output.shape[-1] > 1 and (y.size == len(y) or _one_hot(y)):
        return "classification"
    raise ValueError(
        "Whole numbers may be classes or targets of a linear output of shape "
        f"{output.shape}; say `task='classification'` or "
        "`task='regression'`. Received: task=None"
    )


def _one_hot(y):
    return np.isin(y, (0, 1)).all() and (y.sum(axis=-1) == 1).all()


def _of_stock_model(task, kind, from_logits, output):
    if task == "regression":
        return Reading(Normal, output)
    if from_logits is None:
        if kind is None:
            raise ValueError(
                "The last layer must be a softmax, a sigmoid or linear to be "
                "recognised; say `from_logits=True` or `False` for others. "
                "Received: from_logits=None"
            )
        from_logits = kind == "linear"
    binary = output.shape[-1] == 1
    if not from_logits:
        if output.min() < 0 or output.max() > 1 + 1e-3:
            raise ValueError(
                "Probabilities must lie in [0, 1]. Received: values from "
                f"{output.min():.3g} to {output.max():.3g}"
            )
        tiny = 1e-12
        p = np.clip(output, tiny, 1 - tiny) if binary else output
        output = np.log(np.maximum(p, tiny))
        output = output - np.log1p(-p) if binary else output
    elif kind == "sigmoid" or kind == "softmax":
        raise ValueError(
            f"The last layer is a {kind}, which puts out probabilities. "
            "Received: from_logits=True"
        )
    if kind == "sigmoid" and not binary:
        raise ValueError(
            "Independent yes/no outputs are no single label; audit one of "
            f"them at a time. Received: {output.shape[-1]} sigmoid outputs"
        )
    return Reading(Bernoulli if binary else Softmax, output)


def _check(reading, task, n):
    shape = reading.prediction.shape
    if task not in (None, reading.task):
        raise ValueError(
            f"The likelihood {reading.likelihood.name()} is one of "
            f"{reading.task}. Received: task={task!r}"
        )
    if shape[0] != n or len(shape) < 2:
        raise ValueError(
            f"The model must answer ({n}, ..., units). Received: {shape}"
        )
    if reading.task == "classification":
        yes_or_no = reading.likelihood is not Softmax
        if len(shape) != 2 or (yes_or_no and shape[1] != 1):
            raise ValueError(
                "An audit of labels needs one label an example: logits "
                "(n, classes), or (n, 1) for yes or no. "
                f"Received: {reading.likelihood.name()} of shape {shape}"
            )
    if not np.isfinite(reading.prediction).all():
        bad = ~np.isfinite(reading.prediction).reshape(n, -1).all(axis=1)
        raise ValueError(
            "The model's predictions must be finite. Received: NaN or "
            f"infinite ones for {int(bad.sum())} example(s), the first at "
            f"{int(bad.argmax())}"
        )


def _double(values):
    return np.asarray(values).astype("float64")
