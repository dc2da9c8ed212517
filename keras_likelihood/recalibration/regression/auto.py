"""The best recalibrator of a regressor, by cross-validation."""

import dataclasses

import numpy as np

from keras_likelihood.recalibration.folds import random_folds
from keras_likelihood.recalibration.regression.predicted_scaling import (
    DeepScaling,
    LinearScaling,
)
from keras_likelihood.recalibration.regression.regressor import (
    GlobalScaling,
    RegressorRecalibrator,
)

_MOST_ROWS = 3000
"""Largest number of rows for the choice."""
_METHODS = {c.__name__: c for c in (GlobalScaling, LinearScaling, DeepScaling)}


class Auto(RegressorRecalibrator):
    """Chooses between `GlobalScaling`, `LinearScaling` and `DeepScaling`.

    The choice has the lowest NLL on held-out rows and is fitted to all rows.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        folds: number of folds, `>= 2`. Defaults to 3.
        seed: the random seed of the folds. Defaults to 0.

    Attributes set by fitting:
        method_: name of the class that was chosen.
        cross_validated_nll_: dict of names to the NLL on held-out rows, in
            units of the predicted scale.

    >>> fitted = Auto().fit_arrays(prediction, y, features=features)
    >>> fitted.method_, fitted.cross_validated_nll_
    """

    uses_features = "optional"

    def __init__(
        self, *, likelihood: str = "auto", folds: int = 3, seed: int = 0
    ):
        super().__init__(likelihood=likelihood)
        if folds < 2:
            raise ValueError(f"`folds` must be >= 2. Received: {folds}")
        self.folds = folds
        self.seed = seed

    def _fit_residuals(self, z, x, weight, own):
        rows = np.random.default_rng(self.seed).permutation(len(z))
        rows = np.sort(rows[:_MOST_ROWS])
        folds = random_folds(x[rows], z[rows, None], self.folds, self.seed)
        scores = self.cross_validated_nll_ = {}
        for name, method in _METHODS.items():
            losses = np.empty(len(rows))
            for held in folds:
                kept, out = np.delete(rows, held), rows[held]
                member = method(likelihood=self.likelihood)
                _, shape = member._fit_residuals(
                    z[kept], x[kept], weight[kept], own.at(kept)
                )
                if self._keeps(own):
                    # Parameters of the model differ between rows.
                    shape = dataclasses.replace(
                        own.at(out), shift=shape.shift, factor=shape.factor
                    )
                relative = member._relative(x[out])
                losses[held] = shape.nll(z[out] / relative) + np.log(relative)
            scores[name] = float(np.average(losses, weights=weight[rows]))
        self.method_ = min(scores, key=lambda name: scores[name])
        self._member = _METHODS[self.method_](likelihood=self.likelihood)
        found = self._member._fit_residuals(z, x, weight, own)
        self.parameters_ = self._member.parameters_
        return found

    def _relative(self, x):
        return self._member._relative(x)

    def _relative_graph(self, features):
        return self._member._relative_graph(features)
