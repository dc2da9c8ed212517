"""The likelihood of a model that was compiled without one."""

import dataclasses

import numpy as np

from keras_likelihood.likelihoods import Bernoulli, Normal, Softmax
from keras_likelihood.reading.endings import PROBABILITIES
from keras_likelihood.reading.reading import Reading
from keras_likelihood.reading.stock_losses import (
    asks_questions,
    puts_out_logits,
    task_of_loss,
)
from keras_likelihood.reading.targets import log_probabilities

_LEAST = 1e-12


def with_likelihood(
    reading: Reading, y, task: str | None, from_logits: bool | None
) -> Reading:
    """Returns a reading with a likelihood, in which classes are logits.

    Args:
        reading: a `Reading`. If it has a likelihood, it is returned unchanged.
        y: targets, which may show whether they are classes or numbers.
        task: `"classification"`, `"regression"`, or `None` if unknown.
        from_logits: whether a classifier puts out logits, or `None`.
    """
    if reading.likelihood is not None:
        return reading
    output = reading.prediction.astype("float64")
    output = output[:, None] if output.ndim == 1 else output
    task = task or _task(reading, from_logits, output, y)
    if task == "regression":
        return dataclasses.replace(
            reading, prediction=output, likelihood=Normal
        )
    one, kind = output.shape[-1] == 1, reading.kind
    several = asks_questions(kind, reading.loss)
    if from_logits is None:
        from_logits = puts_out_logits(kind, reading.loss, "another layer")
    if from_logits:
        if kind in PROBABILITIES:
            raise ValueError(
                f"The last layer is a {kind}, which puts out probabilities. "
                "Received: from_logits=True"
            )
    else:
        if output.min() < 0 or output.max() > 1 + 1e-3:
            raise ValueError(
                "Probabilities must lie in [0, 1]. Received: values from "
                f"{output.min():.3g} to {output.max():.3g}"
            )
        each = output[..., None] if several else output
        output = log_probabilities(each, _LEAST).reshape(output.shape)
    return dataclasses.replace(
        reading,
        prediction=output,
        likelihood=Bernoulli if one or several else Softmax,
    )


def _task(reading, from_logits, output, y):
    if reading.kind in PROBABILITIES or from_logits is not None:
        return "classification"
    named = task_of_loss(reading.loss)
    if named:
        return named
    if y.dtype.kind == "f" and not np.array_equal(y, np.round(y)):
        return "regression"
    one_hot = np.isin(y, (0, 1)).all() and (y.sum(axis=-1) == 1).all()
    if output.shape[-1] > 1 and (y.size == len(y) or one_hot):
        return "classification"
    raise ValueError(
        "Targets that are whole numbers may be classes or quantities. The "
        f"output of shape {output.shape} is linear and does not say which. "
        "Give `task='classification'` or `task='regression'`. "
        "Received: task=None"
    )
