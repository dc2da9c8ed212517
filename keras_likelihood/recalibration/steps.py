"""The two steps of a recalibration: a temperature, then a map.

If both were fitted together, each would undo the shrinkage of the other.
"""

import dataclasses
import functools

import numpy as np
from scipy.special import log_softmax

from keras_likelihood.backend.types import Array
from keras_likelihood.recalibration import penalised_fit, softmax
from keras_likelihood.recalibration.feature_basis import SOURCES
from keras_likelihood.recalibration.inputs import Rows
from keras_likelihood.recalibration.network import (
    LinkedObjective,
    linear_part,
    shifted_softplus,
)

MAPS: dict[str | None, tuple[str, ...]] = {
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


@dataclasses.dataclass
class TemperedRows:
    """Rows, a temperature fitted to them, and maps of the tempered logits.

    The logits have already been divided by `base`, the temperature of all rows.
    A `source` of columns predicts another one (see `JointScaling`). Strengths
    of priors maximise the marginal likelihood of all rows, in the object
    `whole`. `None` means this object.
    """

    rows: Rows
    columns: dict[str, Array]
    source: str | None
    base: float
    offset: float
    floor: float = 0.0
    has_prior: bool = True
    whole: "TemperedRows | None" = None
    _last_map: dict[str, Array] | None = None

    def part(self, index: Array) -> "TemperedRows":
        """The same object for some rows."""
        rows, columns = self.rows.part(index), _rows_of(self.columns, index)
        return dataclasses.replace(
            self, rows=rows, columns=columns, whole=self, _last_map=None
        )

    def losses(
        self,
        logit_map: str | None,
        strength: float,
        rows: Rows,
        columns: dict[str, Array],
    ) -> Array:
        """-log p of the labels of other rows, after a map or without one."""
        z = self._tempered(rows.logits, columns)
        if logit_map is not None:
            weights = self.map(logit_map, strength)
            z = for_map(z, self.floor)
            z = softmax.map_logits(z, weights, columns.get("features"))
        return -log_softmax(z, axis=1)[np.arange(len(z)), rows.labels]

    def _tempered(self, z: Array, columns: dict[str, Array]) -> Array:
        if self.source is None:
            return z / self._temperature
        linear = linear_part(self._inputs(columns), self.predictor.weights)
        return z / shifted_softplus(linear, self.offset)[0][:, None]

    def _inputs(self, columns: dict[str, Array]) -> dict[str, Array]:
        names = SOURCES[self.source]
        return {name: x for name, x in columns.items() if name in names}

    @functools.cached_property
    def _temperature(self) -> float:
        if self.whole is None:
            return 1.0
        rows, base = self.rows, self.base
        data = rows.logits * base, rows.labels, rows.weight
        return softmax.solve_temperature(*data, softmax.SPREAD) / base

    @functools.cached_property
    def predictor(self) -> penalised_fit.EvidenceFit:
        """Weights of the predicted temperature, and strengths of their prior.

        If there are many rows, the strengths come from a sample. All rows then
        finish the fit.
        """
        fit_penalised = penalised_fit.fit_penalised
        objective = self._objective(1)
        if not self.has_prior:
            weights = fit_penalised(objective, {}, _MOST)
            return penalised_fit.EvidenceFit(weights, {})
        if self.whole is not None:
            strengths = self.whole.predictor.strengths
            weights = fit_penalised(objective, strengths, _ITERATIONS)
            return penalised_fit.EvidenceFit(weights, strengths)
        every = max(1, len(self.rows.labels) // _SAMPLE_ROWS)
        sample = self._objective(every)
        fit = penalised_fit.fit_by_evidence(sample)
        if every > 1:
            curvatures = penalised_fit.curvatures_at(sample, fit.weights)
            for curvature in curvatures.values():
                curvature.values *= len(objective.weight) / len(sample.weight)
            fit.weights = penalised_fit.minimise(
                objective, fit.weights, curvatures, fit.strengths, 5
            )
        return fit

    def _objective(self, every: int) -> LinkedObjective:
        rows = self.rows.part(slice(None, None, every))
        columns = _rows_of(self._inputs(self.columns), slice(None, None, every))
        return softmax.tempered_softmax(
            rows.logits, rows.labels, columns, self.offset, rows.weight
        )

    def map(self, logit_map: str, strength: float) -> dict[str, Array]:
        """The weights of a map of the tempered logits or of the features."""
        strengths = (self.whole or self)._strengths(logit_map, strength)
        # A fitted map with stronger priors is the start of a matrix.
        start = self._last_map if logit_map == "matrix" else None
        self._last_map = penalised_fit.fit_penalised(
            self._mapped(logit_map), strengths, _ITERATIONS, start
        )
        return self._last_map

    def _mapped(self, logit_map: str) -> softmax.MappedSoftmax:
        rows, features = self.rows, self.columns.get("features")
        names = MAPS[logit_map]
        return softmax.MappedSoftmax(
            self._logs, rows.labels, names, features, rows.weight
        )

    @functools.cached_property
    def _logs(self) -> Array:
        return for_map(
            self._tempered(self.rows.logits, self.columns), self.floor
        )

    def _strengths(self, logit_map: str, strength: float) -> dict[str, float]:
        if logit_map == "features":
            return self._strength_of_features
        classes = self.rows.logits.shape[1]
        precision = 2 * classes * strength
        others = {"matrix": precision * (classes - 1)}
        return {k: others.get(k, precision) for k in MAPS[logit_map]}

    @functools.cached_property
    def _strength_of_features(self) -> dict[str, float]:
        objective = self._mapped("features")
        return penalised_fit.fit_by_evidence(objective, rounds=4).strengths


def _rows_of(
    columns: dict[str, Array], index: Array | slice
) -> dict[str, Array]:
    return {name: x[index] for name, x in columns.items()}


def for_map(z: Array, floor: float) -> Array:
    """The input of a map: log-probabilities, in float32 if there are many.

    With a floor, they are those of `(1 - floor) p + floor / classes`.
    """
    logs = log_softmax(z, axis=1)
    if floor:
        logs = np.log((1 - floor) * np.exp(logs) + floor / z.shape[1])
    return logs.astype("float64" if z.size <= _FEW_NUMBERS else "float32")
