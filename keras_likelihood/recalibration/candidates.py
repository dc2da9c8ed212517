"""The recalibrators that `Auto` combines. They share steps of the fit."""

import dataclasses

from scipy.special import log_softmax

from keras_likelihood.recalibration.columns import rows_of
from keras_likelihood.evidence import EvidenceFit
from keras_likelihood.recalibration.global_temperature import (
    solve_temperature,
)
from keras_likelihood.recalibration.joint_scaling import JointScaling
from keras_likelihood.recalibration.links import SoftplusLink
from keras_likelihood.recalibration.mapped_softmax import map_logits
from keras_likelihood.recalibration.steps import (
    fit_map,
    fit_temperature,
    for_map,
    map_strengths,
    refit_temperature,
    temper,
)

_OFFSET = 0.2
PRIOR_ROWS = 1.0
"""Rows of the prior of the global temperature; see `solve_temperature`."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One kind of recalibrator.

    Args:
        temperature: as in `JointScaling`.
        logit_map: as in `JointScaling`.
        strength: as in `JointScaling`.
    """

    temperature: str | None
    logit_map: str | None
    strength: float

    def __str__(self):
        if self.logit_map is None:
            return (
                "PredictedTemperature" if self.temperature else "GlobalScaling"
            )
        name = {
            "vector": "VectorScaling",
            "matrix": f"MatrixScaling({self.strength:g})",
            "features": "FeatureMap",
        }[self.logit_map]
        return f"PredictedTemperature, {name}" if self.temperature else name


class FittedCandidates:
    """Candidates fitted to the same rows. Each step is done only once.

    Args:
        z: logits after GlobalScaling of all rows, `(rows, classes)`.
        labels: class numbers `(rows,)`.
        columns: dict of group names to `(rows, components)`.
        weight: `(rows,)`, or `None`.
        whole: the same object for all rows. It finds the strengths of the
            priors that maximise the marginal likelihood. `None` means this
            object.
    """

    def __init__(self, z, labels, columns, weight, whole=None):
        self.z = z
        self.labels = labels
        self.columns = columns
        self.weight = weight
        self._whole = whole
        self._link = SoftplusLink(_OFFSET)
        self._fitted = {}

    def part(self, rows):
        """The same object for some rows, without any fit."""
        weight = None if self.weight is None else self.weight[rows]
        return FittedCandidates(
            self.z[rows],
            self.labels[rows],
            rows_of(self.columns, rows),
            weight,
            self,
        )

    def losses(self, candidate, z, labels, columns):
        """-log p of the labels of other rows."""
        z = self._tempered(candidate.temperature, z, columns)
        if candidate.logit_map is not None:
            weights = self._map(candidate)
            z = map_logits(for_map(z), weights, columns.get("features"))
        logs = log_softmax(z, axis=1)
        return -logs[range(len(labels)), labels]

    def recalibrator(self, candidate, base, columns):
        """A `JointScaling` with the fitted weights.

        Args:
            candidate: the candidate.
            base: the global temperature that `z` was divided by.
            columns: the `Columns` with the bases.
        """
        found = JointScaling(**dataclasses.asdict(candidate), offset=_OFFSET)
        predicted = None
        if candidate.temperature:
            predicted = self._once("temperature", self._fit_temperature)
        mapped = self._map(candidate) if candidate.logit_map else {}
        found._set_parameters(base, columns, predicted, mapped)
        return found

    def _once(self, key, make):
        if key not in self._fitted:
            self._fitted[key] = make()
        return self._fitted[key]

    def _tempered(self, source, z, columns):
        if source is None:
            return z / self._once("global", self._fit_global)
        fit = self._once("temperature", self._fit_temperature)
        return temper(z, columns, fit.weights, self._link)

    def _fit_global(self):
        # All logits have already been divided by this temperature.
        if self._whole is None:
            return 1.0
        return solve_temperature(self.z, self.labels, self.weight, PRIOR_ROWS)

    def _fit_temperature(self):
        data = self.z, self.labels, self.columns, self._link
        if self._whole is None:
            return fit_temperature(*data, self.weight)
        known = self._whole._once("temperature", self._whole._fit_temperature)
        weights = refit_temperature(*data, known.strengths, self.weight)
        return EvidenceFit(weights, known.strengths)

    def _logs(self, source):
        return self._once(
            ("logs", source),
            lambda: for_map(self._tempered(source, self.z, self.columns)),
        )

    def _map(self, candidate):
        return self._once(candidate, lambda: self._fit_map(candidate))

    def _fit_map(self, candidate):
        x = self.columns.get("features")
        begin = self._simpler(candidate)
        weights = fit_map(
            self._logs(candidate.temperature),
            self.labels,
            candidate.logit_map,
            self._strengths(candidate),
            x,
            self.weight,
            begin,
        )
        self._fitted["last", candidate.temperature] = weights
        return weights

    def _simpler(self, candidate):
        """A fitted map with stronger priors, to start from."""
        if candidate.logit_map != "matrix":
            return None
        return self._fitted.get(("last", candidate.temperature))

    def _strengths(self, candidate):
        whole = self._whole or self
        return whole._once(
            ("strengths", candidate),
            lambda: map_strengths(
                candidate.logit_map,
                candidate.strength,
                whole._logs(candidate.temperature),
                whole.labels,
                whole.columns.get("features"),
                whole.weight,
            ),
        )
