"""The two steps of a recalibration: a temperature, then a map.

If both were fitted together, each would undo the shrinkage of the other.
"""

import functools

from scipy.special import log_softmax

from keras_likelihood.recalibration import penalised_fit, softmax
from keras_likelihood.recalibration.feature_basis import SOURCES, rows_of
from keras_likelihood.recalibration.network import (
    linear_part,
    shifted_softplus,
)

MAPS = {
    None: (),
    "vector": ("bias", "vector"),
    "matrix": ("bias", "vector", "matrix"),
    "features": ("features",),
}
_SAMPLE_ROWS = 4096
_ITERATIONS = 60
_MOST = 500
"""Iterations of a fit without a prior."""
_FEW_NUMBERS = 2**18


class FittedSteps:
    """Fits the steps of several `JointScaling`s on the same rows, each once.

    The strengths of the priors maximise the marginal likelihood of all rows, in
    the object `whole`. `None` means this object.
    """

    has_prior = True
    """Whether the weights of a predicted temperature have a prior."""
    floor: float
    """Floor of the probabilities before a map; see `JointScaling`."""

    def __init__(self, z, labels, columns, weight, offset, base, whole=None):
        self.z = z
        self.labels = labels
        self.columns = columns
        self.weight = weight
        self.floor = whole.floor if whole else 0.0
        self._offset = offset
        self._base = base
        self._whole = whole
        self._last_map: dict = {}
        for name in ("_temperature", "_logs", "_map", "_strengths"):
            setattr(self, name, functools.cache(getattr(self, name)))

    def part(self, rows) -> "FittedSteps":
        """The same object for some rows, not fitted."""
        columns = rows_of(self.columns, rows)
        data = self.z[rows], self.labels[rows], columns, self.weight[rows]
        return FittedSteps(*data, self._offset, self._base, self)

    def losses(self, scaling, z, labels, columns):
        """-log p of the labels of other rows."""
        z = self._tempered(scaling.temperature_from, z, columns)
        if scaling.logit_map is not None:
            weights = self._map(scaling)
            z = softmax.map_logits(
                for_map(z, self.floor), weights, columns.get("features")
            )
        return -log_softmax(z, axis=1)[range(len(labels)), labels]

    def weights(self, scaling):
        """The `EvidenceFit` of the temperature or `None`, and the map."""
        source = scaling.temperature_from
        return (
            None if source is None else self._temperature(source),
            {} if scaling.logit_map is None else self._map(scaling),
        )

    def _tempered(self, source, z, columns):
        if source is None:
            return z / self._global_temperature
        weights = self._temperature(source).weights
        linear = linear_part(_sources(source, columns), weights)
        return z / shifted_softplus(linear, self._offset)[0][:, None]

    @functools.cached_property
    def _global_temperature(self):
        # All logits have already been divided by this temperature.
        if self._whole is None:
            return 1.0
        return softmax.solve_temperature(
            self.z, self.labels, self.weight, softmax.SPREAD, self._base
        )

    def _temperature(self, source):
        objective = self._by_temperature(source, slice(None))
        if not self.has_prior:
            weights = penalised_fit.fit_penalised(objective, {}, _MOST)
            return penalised_fit.EvidenceFit(weights, {})
        if self._whole is not None:
            strengths = self._whole._temperature(source).strengths
            weights = penalised_fit.fit_penalised(
                objective, strengths, _ITERATIONS
            )
            return penalised_fit.EvidenceFit(weights, strengths)
        # If there are many rows, the strengths come from a sample. All rows
        # then finish the fit.
        rows = len(self.labels)
        stride = max(1, rows // _SAMPLE_ROWS)
        sample = self._by_temperature(source, slice(None, None, stride))
        fit = penalised_fit.fit_by_evidence(sample)
        if stride > 1:
            sample.evaluate(fit.weights)
            scale = rows / len(sample.weight)
            curvatures = {
                k: sample.curvature(k).scaled(scale) for k in fit.weights
            }
            fit.weights = penalised_fit.minimise(
                objective, fit.weights, curvatures, fit.strengths, 5
            )
        return fit

    def _by_temperature(self, source, rows):
        columns = rows_of(_sources(source, self.columns), rows)
        data = self.z[rows], self.labels[rows], columns
        return softmax.tempered_softmax(*data, self._offset, self.weight[rows])

    def _logs(self, source):
        z = self._tempered(source, self.z, self.columns)
        return for_map(z, self.floor)

    def _map(self, scaling):
        strengths = (self._whole or self)._strengths(scaling)
        source = scaling.temperature_from
        begin = None
        if scaling.logit_map == "matrix":
            # A fitted map with stronger priors is the start.
            begin = self._last_map.get(source)
        objective = self._mapped(scaling)
        found = penalised_fit.fit_penalised(
            objective, strengths, _ITERATIONS, begin
        )
        self._last_map[source] = found
        return found

    def _mapped(self, scaling):
        return softmax.MappedSoftmax(
            self._logs(scaling.temperature_from),
            self.labels,
            MAPS[scaling.logit_map],
            self.columns.get("features"),
            self.weight,
        )

    def _strengths(self, scaling):
        # The precision of a feature map maximises the marginal likelihood.
        if scaling.logit_map == "features":
            objective = self._mapped(scaling)
            return penalised_fit.fit_by_evidence(objective, rounds=4).strengths
        classes = self.z.shape[1]
        precision = 2 * classes * scaling.strength
        others = {"matrix": precision * (classes - 1)}
        return {k: others.get(k, precision) for k in MAPS[scaling.logit_map]}


def _sources(source, columns):
    return {k: x for k, x in columns.items() if k in SOURCES[source]}


def for_map(z, floor):
    """The input of a map: log-probabilities, in float32 if there are many."""
    few = z.size <= _FEW_NUMBERS
    logs = softmax.floored_logs(z, floor)
    return logs.astype("float64" if few else "float32")
