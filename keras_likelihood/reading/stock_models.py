"""The likelihood of a model that was compiled without one."""

from dataclasses import replace
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods import Bernoulli, Normal, Softmax
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.endings import PROBABILITIES
from keras_likelihood.reading.reading import Reading
from keras_likelihood.reading.targets import is_one_hot, log_probabilities

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


def with_likelihood(
    reading: Reading, y: Array, task: str | None, from_logits: bool | None
) -> Reading:
    """Returns a reading with a likelihood, in which classes are logits."""
    if reading.likelihood is not None:
        return reading
    output = reading.prediction.astype("float64")
    output = output[:, None] if output.ndim == 1 else output
    task = task or _task(reading, from_logits, output, y)
    if task == "regression":
        return replace(reading, prediction=output, likelihood=Normal)
    kind = reading.kind
    several = is_binary(kind, reading.loss)
    if from_logits is None:
        from_logits = returns_logits(kind, reading.loss, "another layer")
    received = from_logits if kind in PROBABILITIES else None
    allowed = f"False, because the last layer is a {kind}"
    check_argument("from_logits", received, not received, allowed)
    if not from_logits:
        low, high = output.min(), output.max()
        fits, allowed = 0 <= low and high <= 1 + 1e-3, "probabilities in [0, 1]"
        check_argument("outputs", f"{low:.3g} to {high:.3g}", fits, allowed)
        each = output[..., None] if several else output
        output = log_probabilities(each, 1e-12).reshape(output.shape)
    likelihood = Bernoulli if several or output.shape[-1] == 1 else Softmax
    return replace(reading, prediction=output, likelihood=likelihood)


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
