"""Conformity scores of calibration examples, and their thresholds."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import check_argument, check_coverage
from keras_likelihood.serving import LikelihoodPrediction


@dataclasses.dataclass(frozen=True, eq=False)
class CalibrationScores:
    """Scores of calibration examples; a larger score is a worse fit.

        threshold = the k-th smallest score,    k = ceil((n + 1) coverage)

    The score of a new exchangeable example is at most the threshold with a
    probability of at least `coverage`. Every group and every entry of the last
    axes has its own threshold. The values `(n, ...)` are grouped by increasing
    `labels` and sorted within each group. `settings` are those of the sets or
    of the intervals.
    """

    values: Array
    labels: list[Any] | None
    sizes: list[int]
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls, scores: Any, groups: Any = None, **settings: Any
    ) -> "CalibrationScores":
        """Sorts scores `(n, ...)`, by group if `(n,)` labels are given."""
        scores = np.asarray(scores, dtype="float64")
        if not len(scores) or np.isnan(scores).any():
            raise ValueError(
                "Calibration needs at least one example, and predictions and "
                "targets without NaN. Received: "
                f"{len(scores)} scores, {np.isnan(scores).sum()} of them NaN"
            )
        # Models store float32. Rounded up, a bound is never too small.
        with np.errstate(over="ignore"):
            single = scores.astype("float32")
        above = np.nextafter(single, np.float32(np.inf))
        scores = np.where(single < scores, above, single).astype("float64")
        if groups is None:
            scores = np.sort(scores, axis=0)
            return cls(scores, None, [len(scores)], settings)
        groups = as_groups(groups, len(scores))
        labels = np.unique(groups)
        parts = [np.sort(scores[groups == label], axis=0) for label in labels]
        sizes = [len(part) for part in parts]
        return cls(np.concatenate(parts), labels.tolist(), sizes, settings)

    def stored_beside(self, output: Tensor) -> Tensor:
        """The symbolic `output`, from a layer that stores the scores."""
        layer = ConformalScores(
            self.values.shape, self.settings, self.labels, self.sizes
        )
        layer.values.assign(self.values.astype("float32"))
        return layer(output)

    def threshold(
        self, coverage: float, groups: Any = None, count: int = 1
    ) -> Array:
        """Upper bound of a new score `(1, ...)`, or one for each group."""
        check_coverage(coverage)
        labels = self.labels
        allowed = f"labels among {labels[:10]}" if labels else "None"
        fits = (groups is None) == (labels is None)
        allowed += ", as in the calibration"
        check_argument("groups", groups, fits, allowed)
        if labels is None:
            return np.asarray(self._of_group(0, coverage))[None]
        present, index = np.unique(
            as_groups(groups, count), return_inverse=True
        )
        unknown = np.setdiff1d(present, labels)[:5].tolist()
        check_argument("groups", unknown, not unknown, allowed)
        places = map(labels.index, present.tolist())
        return np.stack([self._of_group(i, coverage) for i in places])[index]

    def _of_group(self, position: int, coverage: float) -> Array:
        count = self.sizes[position]
        # Rounding may lift (n + 1) coverage slightly above an integer.
        rank = max(1, math.ceil((count + 1) * coverage - 1e-9))
        if rank > count:
            labels = self.labels
            where = f" in group {labels[position]!r}" if labels else ""
            needed = math.ceil(coverage / (1 - coverage) - 1e-9)
            raise ValueError(
                f"A coverage of {coverage:g} needs at least {needed} "
                f"calibration examples{where}. Received: {count}"
            )
        return self.values[sum(self.sizes[:position]) + rank - 1]


def refuse_weights(weight: Array | None) -> None:
    """Raises an error if examples have different weights."""
    fits = weight is None or np.unique(weight).size <= 1
    allowed = "the same for all examples, which must be exchangeable"
    check_argument("sample_weight", "different weights", fits, allowed)


def as_groups(groups: Any, count: int) -> Array:
    """Group labels `(count,)` as an array of whole numbers or strings."""
    groups = np.asarray(groups)
    if groups.ndim == 2 and groups.shape[1] == 1:
        groups = groups[:, 0]
    if groups.dtype == object and all(isinstance(g, str) for g in groups.flat):
        groups = groups.astype(str)
    fits = groups.shape == (count,) and groups.dtype.kind in "biuU"
    received = f"{groups.dtype} of shape {groups.shape}"
    allowed = f"whole numbers or strings, one per example, of shape {(count,)}"
    check_argument("groups", received, fits, allowed)
    return groups


@serializable
class ConformalScores(LikelihoodPrediction):
    """Identity layer that stores `CalibrationScores`, with them as weights."""

    def __init__(
        self,
        shape: Any,
        settings: dict[str, Any],
        labels: list[Any] | None,
        sizes: list[int],
        **kwargs: Any,
    ) -> None:
        super().__init__(settings.get("likelihood"), **kwargs)
        self.settings = dict(settings)
        self._labels = None if labels is None else list(labels)
        self._sizes = list(sizes)
        options = {"trainable": False, "dtype": "float32"}
        self.values = self.add_weight(shape, "zeros", name="scores", **options)

    @property
    def scores(self) -> CalibrationScores:
        values = keras.ops.convert_to_numpy(self.values).astype("float64")
        return CalibrationScores(
            values, self._labels, self._sizes, self.settings
        )


def scores_of(model: keras.Model) -> CalibrationScores:
    """The scores of a model's last calibration."""
    layers = [v for v in model.layers if isinstance(v, ConformalScores)]
    return layers[-1].scores
