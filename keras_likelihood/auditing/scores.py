"""Which number tells how hard an example is for a model."""

import dataclasses

import numpy as np

from keras_likelihood.auditing.report import AuditReport
from keras_likelihood.data_parameters import DataParameter
from keras_likelihood.reading.reading import per_example


@dataclasses.dataclass
class Score:
    """One number an example; high is suspicious.

    Args:
        name: what it is, in two or three words.
        meaning: the same in a sentence.
        values: `(n,)`.
        learned: whether each example learned its own.
    """

    name: str
    meaning: str
    values: np.ndarray
    learned: bool = False

    def report(self, task, *judgement) -> AuditReport:
        """The report on this score; `judgement` as in `AuditReport`."""
        words = self.name, self.meaning
        return AuditReport(task, self.values, *words, *judgement)


_MEANING = {
    ("learned", "temperature"): (
        "Every training example learned a temperature of its own. It is high "
        "where the model could not bring itself to agree with the label."
    ),
    ("learned", "scale"): (
        "Every training example learned a scale of its own. It is high where "
        "the prediction stays far from the target."
    ),
    ("predicted", "temperature"): (
        "The model predicts a temperature for each input. It is high where "
        "the model is unsure of any label."
    ),
    ("predicted", "scale"): (
        "The model predicts a scale for each input. It is high where the "
        "model expects a large error."
    ),
}


def score_of(reading, data_parameter, nll) -> Score:
    """The most telling score there is.

    Args:
        reading: a `Reading`.
        data_parameter: a `DataParameter`, values `(n,)`, or `None`.
        nll: negative log-likelihood of the labels, `(n,)`.
    """
    name = reading.uncertainty_parameter
    for source, values in (
        ("learned", learned_values(reading, data_parameter, len(nll))),
        ("predicted", _predicted_spread(reading)),
    ):
        if values is not None:
            return Score(
                f"{source} {name}",
                _MEANING[source, name],
                values,
                learned=source == "learned",
            )
    label = "target" if reading.is_real else "label"
    meaning = (
        f"The negative log-likelihood of the given {label}, since the model "
        f"has no {name} of each example. It is high where the model finds the "
        f"{label} improbable. A network that was trained for long on these "
        f"very {label}s may have memorized the wrong ones, and then scores "
        "them low."
    )
    return Score(f"NLL of the given {label}", meaning, nll)


def _predicted_spread(reading):
    """Temperature or scale of each example `(n,)`, if they differ."""
    found = reading.without_data_parameters().parameter(
        reading.uncertainty_parameter
    )
    values = np.ones(()) if found is None else np.asarray(found.values)
    if values.ndim == 0 or len(values) != len(reading.prediction):
        return None
    return per_example(values) if np.ptp(values, axis=0).any() else None


def remembered(reading, data_parameter, n) -> np.ndarray | None:
    """The memory of a `NoisyLabelsLoss`, `(n, classes)`, or `None`."""
    if data_parameter is None:
        data_parameter = reading.data_parameters.get("memory")
        # Of another size, it belongs to other data than these.
        if data_parameter is None or data_parameter.num_examples != n:
            return None
    if isinstance(data_parameter, DataParameter):
        if data_parameter.name != "memory":
            return None
        data_parameter = data_parameter.values()
    values = np.asarray(data_parameter)
    return values if values.shape == (n, reading.prediction.shape[1]) else None


def learned_values(reading, data_parameter, n) -> np.ndarray | None:
    """What each example learned `(n,)`, or `None` if nothing is known."""
    if data_parameter is None:
        own = reading.data_parameters.get(reading.uncertainty_parameter)
        # Of another size, it belongs to other data than these.
        if own is None or own.num_examples != n:
            return None
        data_parameter = own
    if isinstance(data_parameter, DataParameter):
        if data_parameter.name not in (None, reading.uncertainty_parameter):
            raise ValueError(
                "`data_parameter` must be of the "
                f"{reading.uncertainty_parameter}. "
                f"Received: one of the {data_parameter.name}"
            )
        data_parameter = data_parameter.values()
    values = np.asarray(data_parameter, "float64")
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
    return per_example(values)
