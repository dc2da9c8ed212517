"""Which number says how hard an example is for a model."""

from typing import NamedTuple

import numpy as np

from keras_likelihood.data_parameters import DataParameter
from keras_likelihood.reading.reading import per_example


class Score(NamedTuple):
    """One number per example, `(n,)`; high is suspicious.

    `name` says in two or three words what it is, `meaning` in a sentence.
    """

    values: np.ndarray
    name: str
    meaning: str


def score_of(reading, learned, nll) -> Score:
    """The most telling score of a `Reading`.

    It is the temperature or scale that each example `learned`, if there is
    one, then the predicted one, then the `nll` of the labels, `(n,)`.
    """
    name = reading.uncertainty_parameter
    label = "target" if reading.is_real else "label"
    if learned is not None:
        meaning = (
            f"Every training example learned a {name} of its own. It is high "
            f"where the model disagrees with the {label}."
        )
        return Score(learned, f"learned {name}", meaning)
    predicted = _predicted_spread(reading)
    if predicted is not None:
        meaning = (
            f"The model predicts a {name} for each input. It is high where "
            f"the model is unsure of any {label}."
        )
        return Score(predicted, f"predicted {name}", meaning)
    meaning = (
        f"The negative log-likelihood of the given {label}, since the model "
        f"has no {name} of each example. It is high where the model finds the "
        f"{label} improbable. A network that was trained for long on these "
        f"very {label}s may have memorized the wrong ones, and then scores "
        "them low."
    )
    return Score(nll, f"NLL of the given {label}", meaning)


def _predicted_spread(reading):
    """Temperature or scale of each example `(n,)`, if they differ."""
    found = reading.without_data_parameters().parameter(
        reading.uncertainty_parameter
    )
    values = np.ones(()) if found is None else np.asarray(found.values)
    if values.ndim == 0 or len(values) != len(reading.prediction):
        return None
    return per_example(values) if np.ptp(values, axis=0).any() else None


def learned_values(reading, data_parameter, n):
    """What each example learned: `(memory, temperature or scale)`.

    The memory of a `NoisyLabelsLoss` is `(n, classes)`, a temperature or scale
    `(n,)`. Each is `None` if it is not known. Without a `DataParameter` or its
    values, those of the model are taken if it has `n` examples.
    """
    name = reading.uncertainty_parameter
    if data_parameter is None:
        own = reading.data_parameters
        data_parameter = own.get("memory", own.get(name))
        if data_parameter is None or data_parameter.num_examples != n:
            return None, None
    may_be_memory = not reading.is_real
    if isinstance(data_parameter, DataParameter):
        may_be_memory = may_be_memory and data_parameter.name == "memory"
        if data_parameter.name not in (None, name) and not may_be_memory:
            raise ValueError(
                f"`data_parameter` must be of the {name}. "
                f"Received: one of the {data_parameter.name}"
            )
        data_parameter = data_parameter.values()
    values = np.asarray(data_parameter, "float64")
    if may_be_memory and values.shape == (n, reading.prediction.shape[1]):
        return values, None
    if values.ndim == 0 or len(values) != n:
        raise ValueError(
            f"`data_parameter` must have one value for each of the {n} "
            "examples; `x` and `y` are the training data in the order of "
            f"their index. Received: shape {values.shape}"
        )
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(
            "`data_parameter` must have finite values > 0. "
            f"Received: values from {values.min()} to {values.max()}"
        )
    return None, per_example(values)
