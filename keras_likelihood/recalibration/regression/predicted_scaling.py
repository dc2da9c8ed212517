"""Scales predicted from features, and the choice of a method."""

import dataclasses
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.recalibration.feature_basis import FeatureBasis
from keras_likelihood.recalibration.inputs import random_folds
from keras_likelihood.recalibration.network import LinkedObjective, fit_network
from keras_likelihood.recalibration.penalised_fit import fit_by_evidence
from keras_likelihood.recalibration.regression.regressor import (
    GlobalRescaling,
    RegressorRecalibrator,
)
from keras_likelihood.recalibration.regression.residual_shape import (
    ResidualShape,
)


@dataclasses.dataclass(kw_only=True, eq=False)
class LinearRescaling(RegressorRecalibrator):
    """Predicts each example's scale from its features.

        scale = g * f(x w + c) * base

    with `g` the factor of GlobalRescaling and `f` the shifted softplus. If all
    weights are zero, the result is GlobalRescaling. The weights have a prior
    around zero, whose strength maximises the marginal likelihood.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.01.
    """

    offset: float = 0.01
    uses_features = True

    def _fit_network(
        self, z: Array, x: Any, weight: Array, own: ResidualShape
    ) -> None:
        basis = FeatureBasis(x, weight)
        objective = scale_objective(z, basis(x), self.offset, weight, own)
        first, bias, *rest = self._weights(objective, x)
        kernel, shift = basis.to_raw(first)
        self.parameters_["network"] = [kernel, bias + shift, *rest]
        if not rest:
            self.parameters_["kernel"] = kernel[:, 0]
            self.parameters_["intercept"] = float((bias + shift)[0])

    def _weights(self, objective: LinkedObjective, raw: Array) -> list[Array]:
        """The `[kernel, bias, ...]` that minimise an objective."""
        fit = fit_by_evidence(objective)
        self.parameters_["prior_precision"] = fit.strengths["scale"]
        return [np.reshape(fit.weights["scale"], (-1, 1)), fit.weights["free"]]


@dataclasses.dataclass(kw_only=True, eq=False)
class DeepRescaling(LinearRescaling):
    """Predicts each example's scale by a network on its features.

        scale = g * f(network(x)) * base

    with `g` the factor of GlobalRescaling and `f` the shifted softplus. The
    network starts as GlobalRescaling. The number of iterations is chosen on
    held-out folds.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        hidden: sizes of the hidden layers. Defaults to `(16,)`.
        offset: the offset of the softplus, `>= 0`. Defaults to 0.01.
        seed: the random seed of the initial weights and the folds. Defaults to
            0.
    """

    hidden: tuple[int, ...] = (16,)
    seed: int = 0

    def _weights(self, objective: LinkedObjective, raw: Array) -> list[Array]:
        parts, self.parameters_["iterations"] = fit_network(
            objective, raw, self.hidden, self.seed
        )
        return parts


def scale_objective(
    z: Array, x: Array, offset: float, weight: Array, shape: ResidualShape
) -> LinkedObjective:
    """`standard_nll(z / s) + log s` of residuals, with `s = f(x w + c)`."""

    def by_scale(scale: Array, rows: Any) -> tuple[Array, Array, Array]:
        ratio = z[rows] / scale
        loss, slope = shape.at(rows).loss_and_slope(ratio)
        by_log = 1 - ratio * slope
        # Fisher information of log s, which is 2 for a normal density.
        information: Any = 2.0
        if shape.likelihood != "normal":
            information = np.average(by_log**2, weights=weight[rows])
        return loss + np.log(scale), by_log / scale, information / scale**2

    return LinkedObjective(by_scale, {"scale": x}, offset, weight)


_MOST_ROWS = 3000
"""Largest number of rows for the choice."""
_METHODS: dict[str, type[RegressorRecalibrator]] = {
    c.__name__: c for c in (GlobalRescaling, LinearRescaling, DeepRescaling)
}


@dataclasses.dataclass(kw_only=True, eq=False)
class AutoRescaling(RegressorRecalibrator):
    """Chooses between `GlobalRescaling`, `LinearRescaling` and `DeepRescaling`.

    The method with the lowest held-out NLL is fitted to all rows.

    Args:
        likelihood: `"auto"` (default), `"normal"` or `"student_t"`.
        folds: number of folds, `>= 2`. Defaults to 3.
        seed: the random seed of the folds. Defaults to 0.

    Attributes set by fitting:
        method_: name of the chosen class.
        cross_validated_nll_: dict of names to the NLL on held-out rows, in
            units of the predicted scale.

    ```python
    fitted = AutoRescaling().fit_arrays(prediction, y, features=features)
    fitted.method_, fitted.cross_validated_nll_
    ```
    """

    folds: int = 3
    seed: int = 0
    uses_features = "optional"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_argument("folds", self.folds, self.folds >= 2, ">= 2")

    def _fit_residuals(
        self, z: Array, x: Any, weight: Array, own: ResidualShape
    ) -> tuple[Any, ResidualShape]:
        rows = np.random.default_rng(self.seed).permutation(len(z))
        rows = np.sort(rows[:_MOST_ROWS])
        folds = random_folds(x[rows], z[rows, None], self.folds, self.seed)
        scores: dict[str, float] = {}
        self.cross_validated_nll_ = scores
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
                        own.at(out), factor=shape.factor
                    )
                relative = member._relative(x[out])
                losses[held] = shape.nll(z[out] / relative) + np.log(relative)
            scores[name] = float(np.average(losses, weights=weight[rows]))
        self.method_ = min(scores, key=lambda name: scores[name])
        member = _METHODS[self.method_](likelihood=self.likelihood)
        fitted = member._fit_residuals(z, x, weight, own)
        self.parameters_ = member.parameters_
        return fitted
