"""Ranks labels and targets by the predictions of a model."""

import dataclasses
from typing import Any

import numpy as np

from keras_likelihood.backend.files import Path
from keras_likelihood.backend.types import Array
from keras_likelihood.data_parameters import DataParameter
from keras_likelihood.likelihoods.checks import check_argument, to_float64
from keras_likelihood.reading.reading import per_example
from keras_likelihood.reading.targets import as_labels, as_targets
from keras_likelihood.tables.csv_files import write_csv


@dataclasses.dataclass
class AuditReport:
    """Scores and suspected label errors, in the order of the examples.

    Args:
        task: `"classification"` or `"regression"`.
        scores: `(n,)`; high is suspicious.
        score_name: short name of the score.
        score_meaning: explanation of the score.
        label_issues: dict of arrays `(n,)` in cleanlab's columns:
            `is_label_issue`, `label_quality` (in [0, 1], low is bad),
            `given_label`, `predicted_label`.
        nll: `(n,)` negative log-likelihood of the labels.
        columns: further columns of the page, by name, each `(n,)`.
        rule: explanation of the rule by which examples are suspected.
        path: path of the page, or `None` if no page was written.
        label_names: names of the classes, or `None` for regression.

    ```python
    report = kl.audit(model, x, y)
    x[report.suspects()[:20]]
    ```
    """

    task: str
    scores: Array
    score_name: str
    score_meaning: str
    label_issues: dict[str, Array]
    nll: Array
    columns: dict[str, Array] = dataclasses.field(default_factory=dict)
    rule: str = ""
    path: str | None = None
    label_names: list[str] | None = None

    @property
    def num_issues(self) -> int:
        """Number of suspected labels."""
        return int(self.label_issues["is_label_issue"].sum())

    def ranked(self) -> Array:
        """Indices `(n,)` of all examples, highest score first."""
        return np.argsort(-self.scores, kind="stable")

    def suspects(self) -> Array:
        """Indices of the suspected examples, worst first."""
        issues = np.flatnonzero(self.label_issues["is_label_issue"])
        quality = self.label_issues["label_quality"][issues]
        # Likelihoods break ties of qualities at zero.
        return issues[np.lexsort((-self.nll[issues], quality))]

    def to_csv(self, path: Path) -> None:
        """Writes the index, `label_issues` and the score to a .csv."""
        columns = {"index": np.arange(len(self.scores)), **self.label_issues}
        columns["score"] = self.scores
        write_csv(path, {k: values.tolist() for k, values in columns.items()})

    def __repr__(self) -> str:
        return (
            f"AuditReport({self.task} of {len(self.scores)} examples, "
            f"score={self.score_name!r}, num_issues={self.num_issues}, "
            f"path={self.path!r})"
        )


def score_of(
    reading: Any, learned: Array | None, nll: Array
) -> tuple[Array, str, str]:
    """Most informative score `(n,)` of a `Reading`, its name and meaning."""
    name = reading.uncertainty_parameter
    label = "target" if reading.is_real else "label"
    if learned is not None:
        meaning = f"High where the model disagrees with the {label}."
        return learned, f"learned {name}", meaning
    predicted = reading.without_data_parameters().parameter(name)
    values = np.asarray(1 if predicted is None else predicted.values)
    each = values.ndim and len(values) == len(reading.prediction)
    if each and np.ptp(values, axis=0).any():
        meaning = f"High where the model is uncertain about the {label}."
        return per_example(values), f"predicted {name}", meaning
    meaning = (
        f"High where the model finds the {label} improbable. A network that "
        f"has memorized wrong {label}s gives them low scores."
    )
    return nll, f"NLL of the given {label}", meaning


def learned_values(
    reading: Any, data_parameter: Any, n: int
) -> tuple[Array | None, Array | None]:
    """Learned values: a memory `(n, classes)` and a spread `(n,)`, or None."""
    name = reading.uncertainty_parameter
    if data_parameter is None:
        own = reading.data_parameters
        data_parameter = own.get("memory", own.get(name))
        if data_parameter is None or data_parameter.num_examples != n:
            return None, None
    may_be_memory = not reading.is_real
    if isinstance(data_parameter, DataParameter):
        owner = data_parameter.name
        may_be_memory = may_be_memory and owner == "memory"
        fits = may_be_memory or owner in (None, name)
        check_argument("data_parameter", owner, fits, f"for the {name}")
        data_parameter = data_parameter.values()
    values = np.asarray(data_parameter, "float64")
    if may_be_memory and values.shape == (n, reading.prediction.shape[1]):
        return values, None
    is_valid = (np.isfinite(values) & (values > 0)).all()
    if values.ndim == 0 or len(values) != n or not is_valid:
        raise ValueError(
            f"`data_parameter` must have a finite value > 0 for each of the "
            f"{n} training examples. Received: shape {values.shape}, values "
            f"from {values.min()} to {values.max()}"
        )
    return None, per_example(values)


def rank_labels(reading: Any, y: Array, data_parameter: Any) -> AuditReport:
    """Ranks class labels under the probabilities of a `Reading`."""
    y = as_labels(y, reading.prediction.shape)
    # A value learned for a wrong label would hide the error.
    shared = reading.without_data_parameters()
    p = shared.distribution().class_probabilities().reshape(len(y), -1)
    nll = shared.nll(y)
    memory, temperature = learned_values(reading, data_parameter, len(y))
    if memory is not None:
        return _rank_by_memory(y, nll, memory)
    order = "learned temperature, highest"
    if temperature is None:
        order = "probability of the given label, lowest"
    return AuditReport(
        "classification",
        *score_of(reading, temperature, nll),
        find_label_issues(y, p, temperature),
        nll,
        {"p(given)": np.exp(-nll), "p(predicted)": p.max(axis=1)},
        "A label is suspected if another class is the most probable one, and "
        "at least as probable as that class is on average where it is the "
        f"given label (confident learning). The list is sorted by {order} "
        "first.",
    )


def _rank_by_memory(y: Array, nll: Array, memory: Array) -> AuditReport:
    truth = true_class_probabilities(y, memory)
    overlapping = true_class_probabilities(y, memory, power=1.0)
    rows = np.arange(len(y))
    quality, predicted = truth[rows, y], truth.argmax(axis=1)
    wrong = np.sum(1 - quality)
    fewer = min(np.sum(1 - overlapping[rows, y]), wrong)
    return AuditReport(
        "classification",
        nll - np.log(np.clip(memory[rows, y], 1e-6, 1)),
        "doubt of the label",
        "Minus the logarithm of two probabilities of the given label: the "
        "network's prediction, and its average prediction during training.",
        issue_columns(quality < 0.5, quality, y, predicted),
        nll,
        {"p(given)": np.exp(-nll), "p(label is right)": quality},
        "A label is suspected if it is more likely wrong than right, judged "
        "by the network's predictions for the example during training. "
        f"{wrong:,.0f} of the {len(y):,} labels are expected to be wrong if "
        "every input shows its class, as most photographs do, and "
        f"{fewer:,.0f} if classes overlap.",
    )


def rank_targets(reading: Any, y: Array, data_parameter: Any) -> AuditReport:
    """Ranks targets by the size of their errors under the likelihood."""
    n, shape = len(y), reading.prediction.shape
    y = as_targets(y, shape)
    residual = y - reading.prediction
    shared = reading.without_data_parameters()
    parameters = {p.name: p.values for p in shared.parameters}
    _, learned = learned_values(reading, data_parameter, n)
    rule = (
        "A target is suspected if fewer than one error of its size is "
        "expected among all examples under the model's likelihood."
    )
    # A scale learned for a wrong target would hide the error.
    if learned is not None or "scale" not in parameters:
        parameters["scale"] = typical_scale(shared, residual)
        rule += " The scale is estimated from the median error of all examples."
    around_zero = reading.likelihood(
        np.zeros(shape, "float32"),
        **{k: np.asarray(v, "float32") for k, v in parameters.items()},
    )
    error = residual.astype("float32")
    nll = to_float64(around_zero.nll(error)).reshape(n, -1).mean(axis=1)
    # The probability of a larger error.
    tail = 2 * to_float64(around_zero.cdf(-np.abs(error))).reshape(n, -1)
    if tail.shape[1] > 1:
        rule += " Of several targets, the least probable one is shown."
    # The smallest of several probabilities needs a Bonferroni correction.
    probability = np.minimum(tail.min(axis=1) * tail.shape[1], 1.0)
    quality, order = probability, "tail probability, lowest"
    if learned is not None:
        quality = 1 / (1 + learned / parameters["scale"])
        order = "learned scale, highest"
    at = (np.arange(n), tail.argmin(axis=1))
    scale = np.broadcast_to(parameters["scale"], shape).reshape(n, -1)[at]
    given, predicted = (v.reshape(n, -1)[at] for v in (y, reading.prediction))
    is_issue = probability * n < 1
    issues = issue_columns(is_issue, quality, given, predicted)
    relative = residual.reshape(n, -1)[at] / scale
    score = score_of(reading, learned, nll)
    columns = {} if score[1] == "predicted scale" else {"scale": scale}
    columns |= {"residual / scale": relative, "tail probability": probability}
    rule = f"{rule} The list is sorted by {order} first."
    return AuditReport("regression", *score, issues, nll, columns, rule)


def typical_scale(reading: Any, residual: Array) -> float:
    """The scale at which the likelihood has the observed median error.

    scale = median |residual| / q,    P(|z| <= q) = 1/2
    """
    others = {p.name: float(np.median(p.values)) for p in reading.parameters}
    others.pop("scale", None)
    unit = reading.likelihood(np.zeros((1, 1), "float32"), **others)
    middle = to_float64(unit.quantile(0.75)).item()
    size = np.abs(residual)
    # Half of the errors or more may be exactly zero.
    return float(np.median(size) / middle or size.mean() or 1.0)


def find_label_issues(
    y: Any, probabilities: Any, temperature: Any = None
) -> dict[str, Array]:
    """Finds suspected label errors, with the column names of cleanlab.

    A label is suspected if the most probable class is another one, and if the
    classifier is confident of another class: its probability is at least the
    class's average over the examples with that label (Northcutt, Jiang and
    Chuang, "Confident Learning", 2021).

    Probabilities predicted for the training data are overfit to the labels in
    question. Held-out probabilities find more errors. A temperature learned
    for each training example does not have this problem, so it sets the
    quality if it is given.

    >>> y = np.array([0, 0, 1])
    >>> p = np.array([[0.9, 0.1], [0.1, 0.9], [0.2, 0.8]])
    >>> kl.auditing.find_label_issues(y, p)["is_label_issue"]
    array([False,  True, False])

    Args:
        y: class numbers `(n,)`.
        probabilities: `(n, classes)`.
        temperature: `(n,)`, or `None`.

    Returns:
        A dict of arrays `(n,)`: `is_label_issue` (bool), `label_quality` in
        [0, 1] (low is bad: the probability of the given label, or
        `1 / (1 + temperature)`), `given_label` and `predicted_label`.
    """
    y, p = np.asarray(y), np.asarray(probabilities)
    own, predicted = p[np.arange(len(y)), y], p.argmax(axis=1)
    counts, sums = (np.bincount(y, w, p.shape[1]) for w in (None, own))
    # No example is confidently of a class without examples.
    average = np.where(counts > 0, sums / np.maximum(counts, 1), 2.0)
    # Equality up to rounding: the mean of equal numbers may exceed them.
    confident = np.where(p >= average - 1e-6, p, 0.0)
    is_other = confident.any(axis=1) & (confident.argmax(axis=1) != y)
    quality = own
    if temperature is not None:
        quality = 1 / (1 + np.asarray(temperature, "float64"))
    return issue_columns(is_other & (predicted != y), quality, y, predicted)


def issue_columns(
    is_issue: Array, quality: Array, given: Array, predicted: Array
) -> dict[str, Array]:
    """Dict of arrays `(n,)` with the column names of cleanlab."""
    names = "is_label_issue", "label_quality", "given_label", "predicted_label"
    return dict(zip(names, (is_issue, quality, given, predicted), strict=True))


SHARPNESS = 3.4
"""Power of the remembered probabilities, see docs/studies/label_noise.md."""
_ROUNDS = 60


def true_class_probabilities(
    y: Any, memory: Any, power: float = SHARPNESS
) -> Array:
    """Probabilities of the true classes, from given labels and a memory.

    The memory m of an example is the mean of its predictions during training. A
    label is drawn from the row of a confusion matrix C that belongs to the true
    class, so by Bayes' rule

        P(true class is k) ~ m_k^power C[k, y]

    If every input shows its class, the memory is underconfident, hence a power
    above 1. If classes overlap, a power of 1 is right. C is estimated by
    expectation maximisation (Dawid and Skene, 1979). A pseudocount of 1 in each
    cell keeps rare classes away from zero.
    """
    y, memory = np.asarray(y), np.asarray(memory, "float64")
    classes = memory.shape[1]
    left = np.clip(1 - memory.sum(axis=1, keepdims=True), 0, 1)
    prior = np.clip(memory + left / classes, 1e-4, 1) ** power
    prior /= prior.sum(axis=1, keepdims=True)
    rows = [np.flatnonzero(y == k) for k in range(classes)]
    found: Array = prior
    confusion = 0.8 * np.eye(classes) + 0.2 / classes
    for _ in range(_ROUNDS):
        confusion /= confusion.sum(axis=1, keepdims=True)
        found = prior * confusion.T[y]
        found /= found.sum(axis=1, keepdims=True)
        confusion = 1 + np.stack([found[r].sum(axis=0) for r in rows], axis=1)
    return found
