"""The two steps of a recalibration: a temperature, then a map.

If both were fitted together, each would undo the shrinkage of the other.
"""

import dataclasses
import functools

import numpy as np

from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.recalibration import softmax
from keras_likelihood.recalibration.inputs import (
    SOURCES,
    Rows,
    library_of,
    log_softmax,
)
from keras_likelihood.recalibration.network import (
    LinkedObjective,
    linear_part,
    shifted_softplus,
)
from keras_likelihood.recalibration.penalised_fit import (
    Groups,
    curvatures_at,
    fit_by_evidence,
    fit_penalised,
    minimise,
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
    A `source` of the columns predicts another one (see `JointScaling`). The
    strengths of priors come from all rows, in `whole` or in this object.
    """

    rows: Rows
    source: str | None
    base: float
    floor: float = 0.0
    has_prior: bool = True
    whole: "TemperedRows | None" = None

    def part(self, index: Array) -> "TemperedRows":
        """The same object for some rows."""
        rows = self.rows.part(index)
        return dataclasses.replace(self, rows=rows, whole=self)

    def losses(
        self, logit_map: str | None, strength: float, rows: Rows
    ) -> Array:
        """-log p of the labels of other rows, after a map or without one."""
        z = self._tempered(rows)
        if logit_map is not None:
            weights = self.map(logit_map, strength)
            z = for_map(z, self.floor)
            z = softmax.map_logits(z, weights, rows.features)
        return -log_softmax(z)[np.arange(len(z)), rows.labels]

    def _tempered(self, rows: Rows) -> Array:
        if self.source is None:
            return rows.logits / self._temperature
        linear = linear_part(self._inputs(rows), self.predictor[0])
        value, _ = shifted_softplus(linear, softmax.OFFSET)
        return rows.logits / value[:, None]

    def _inputs(self, rows: Rows) -> Groups:
        names = SOURCES[self.source]
        return {name: x for name, x in rows.columns.items() if name in names}

    @functools.cached_property
    def _temperature(self) -> float:
        if self.whole is None:
            return 1.0
        rows = self.rows.with_logits(self.rows.logits * self.base)
        return softmax.solve_temperature(rows, softmax.SPREAD) / self.base

    @functools.cached_property
    def predictor(self) -> tuple[Groups, dict[str, float]]:
        """Weights of the predicted temperature, and strengths of priors."""
        objective = self._objective(1)
        if self.whole is not None or not self.has_prior:
            strengths = self.whole.predictor[1] if self.whole else {}
            most = _ITERATIONS if self.has_prior else _MOST
            return fit_penalised(objective, strengths, most), strengths
        every = max(1, len(self.rows.labels) // _SAMPLE_ROWS)
        sample = self._objective(every)
        weights, strengths = fit_by_evidence(sample)
        if every > 1:
            curvatures = curvatures_at(sample, weights)
            for curvature in curvatures.values():
                curvature.values *= len(objective.weight) / len(sample.weight)
            weights = minimise(objective, weights, curvatures, strengths, 5)
        return weights, strengths

    def _objective(self, every: int) -> LinkedObjective:
        rows = self.rows.part(slice(None, None, every))
        return softmax.tempered_softmax(rows, self._inputs(rows))

    def map(self, logit_map: str, strength: float) -> Groups:
        """The weights of a map of the tempered logits or of the features."""
        strengths = (self.whole or self)._strengths(logit_map, strength)
        return fit_penalised(self._mapped(logit_map), strengths, _ITERATIONS)

    def _mapped(self, logit_map: str) -> softmax.MappedSoftmax:
        return softmax.MappedSoftmax(self._tempered_rows, MAPS[logit_map])

    @functools.cached_property
    def _tempered_rows(self) -> Rows:
        """The rows with the inputs of a map."""
        z = self._tempered(self.rows)
        return self.rows.with_logits(for_map(z, self.floor))

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
        return fit_by_evidence(objective, rounds=4)[1]


def for_map(z: Tensor, floor: float) -> Tensor:
    """Log-probabilities of `(1 - floor) p + floor / classes`."""
    xp, logs = library_of(z), log_softmax(z)
    if floor:
        logs = xp.log((1 - floor) * xp.exp(logs) + floor / z.shape[-1])
    if xp is np:
        logs = logs.astype("float64" if z.size <= _FEW_NUMBERS else "float32")
    return logs
