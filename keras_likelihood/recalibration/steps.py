"""The two steps of a recalibration: a temperature, then a map.

The temperature is fitted first. Then the map is fitted to the tempered logits,
with the penalties of structured matrix scaling (Berta and others, 2026). If
both were fitted together, each would undo the shrinkage of the other.
"""

from scipy.special import log_softmax

from keras_likelihood.evidence import (
    fit_by_evidence,
    fit_penalised,
    minimise,
)
from keras_likelihood.recalibration.mapped_softmax import (
    MappedSoftmax,
    StoredMap,
)
from keras_likelihood.recalibration.tempered_softmax import (
    TemperedSoftmax,
    linear_part,
)

MAPS = {
    None: (),
    "vector": ("bias", "vector"),
    "matrix": ("bias", "vector", "matrix"),
    "features": ("features",),
}
_SAMPLE_ROWS = 4096
_CURVATURE_ROWS = 16384
_ITERATIONS = 60
_FEW_NUMBERS = 2**18


def fit_temperature(z, labels, columns, link, weight=None):
    """Strengths and weights of a predicted temperature.

    If there are many rows, the strengths come from a sample. All rows then
    finish the fit.

    Args:
        z: logits after GlobalScaling, `(rows, classes)`.
        labels: class numbers `(rows,)`.
        columns: dict of group names to `(rows, components)`.
        link: the map from the linear part to the temperature.
        weight: `(rows,)`, or `None`.

    Returns:
        An `EvidenceFit`.
    """
    stride = max(1, len(labels) // _SAMPLE_ROWS)
    part = slice(None, None, stride)
    sample = TemperedSoftmax(
        z[part],
        labels[part],
        {name: x[part] for name, x in columns.items()},
        link,
        None if weight is None else weight[part],
    )
    fit = fit_by_evidence(sample)
    if stride > 1:
        sample.evaluate(fit.weights)
        scale = len(labels) / len(labels[part])
        curvatures = {k: sample.curvature(k).scaled(scale) for k in fit.weights}
        full = TemperedSoftmax(z, labels, columns, link, weight)
        fit.weights = minimise(full, fit.weights, curvatures, fit.strengths, 5)
    return fit


def refit_temperature(z, labels, columns, link, strengths, weight=None):
    """Weights of a predicted temperature whose strengths are known."""
    objective = TemperedSoftmax(z, labels, columns, link, weight)
    return fit_penalised(objective, strengths, _ITERATIONS)


def temper(z, columns, weights, link):
    """Divides logits by the predicted temperature, if there is one."""
    if weights is None:
        return z
    temperature, _ = link(linear_part(columns, weights))
    return z / temperature[:, None]


def for_map(z):
    """The input of a map: log-probabilities, in float32 if there are many."""
    few = z.size <= _FEW_NUMBERS
    return log_softmax(z, axis=1).astype("float64" if few else "float32")


def fit_map(logs, labels, kind, strengths, x=None, weight=None, begin=None):
    """Weights of a map whose strengths are known.

    Args:
        logs: what `for_map` returns.
        labels: class numbers `(rows,)`.
        kind: a key of `MAPS`.
        strengths: as `map_strengths` returns them.
        x: features in their basis, for a map of the features.
        weight: `(rows,)`, or `None`.
        begin: weights of a simpler map to begin with, or `None`.
    """
    objective = MappedSoftmax(logs, labels, MAPS[kind], x, weight)
    return fit_penalised(objective, strengths, _ITERATIONS, begin)


def fit_stored_map(logs, labels, kind, strength, weight=None):
    """`fit_map` of log-probabilities that are read block by block.

    The curvature of a sample of the rows sets the coordinates of the fit.
    Every step of the fit is a pass over all rows.
    """
    strengths = map_strengths(kind, strength, logs, labels)
    stride = max(1, len(labels) // _CURVATURE_ROWS)
    part = slice(None, None, stride)
    sample = MappedSoftmax(
        logs[part],
        labels[part],
        MAPS[kind],
        weight=None if weight is None else weight[part],
    )
    scale = len(labels) / len(sample.labels)
    weaker = {name: value / scale for name, value in strengths.items()}
    weights = fit_penalised(sample, weaker, _ITERATIONS)
    sample.evaluate(weights)
    curvatures = {k: sample.curvature(k).scaled(scale) for k in weights}
    full = StoredMap(logs, labels, MAPS[kind], weight)
    return minimise(full, weights, curvatures, strengths, _ITERATIONS)


def map_strengths(kind, strength, logs, labels, x=None, weight=None):
    """Precisions of a map's priors, by group.

    The precisions of a vector or matrix map grow with the number of weights.
    The precision of a map of the features maximises the marginal likelihood.
    """
    if kind == "features":
        objective = MappedSoftmax(logs, labels, MAPS[kind], x, weight)
        return fit_by_evidence(objective, rounds=4).strengths
    classes = logs.shape[1]
    precisions = {
        "bias": 2 * classes * strength,
        "vector": 2 * classes * strength,
        "matrix": 2 * classes * (classes - 1) * strength,
    }
    return {name: precisions[name] for name in MAPS[kind]}
