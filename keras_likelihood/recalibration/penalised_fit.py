"""Penalised fits with strengths estimated by evidence (MacKay, 1992)."""

from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import minimize

from keras_likelihood.backend.types import Array

STRONGEST = 1e9


class Curvature:
    """Eigenvalues and eigenvectors of a Gauss-Newton matrix.

    It is `left`, or the Kronecker product of `left` and `right`. A vector
    `left` is the diagonal of a matrix.
    """

    def __init__(self, left: Array, right: Array | None = None) -> None:
        self._rows = self._columns = None
        values = left
        if left.ndim == 2:
            values, self._rows = np.linalg.eigh(left)
        self.values = np.maximum(values, 0.0)
        if right is not None:
            values, self._columns = np.linalg.eigh(right)
            self.values = np.outer(self.values, np.maximum(values, 0.0))

    def to_coordinates(self, weights: Array) -> Array:
        """Weights in the eigenbasis."""
        turned = weights if self._rows is None else self._rows.T @ weights
        return turned if self._columns is None else turned @ self._columns

    def to_weights(self, coordinates: Array) -> Array:
        """The inverse of `to_coordinates`."""
        turned = coordinates
        if self._rows is not None:
            turned = self._rows @ coordinates
        return turned if self._columns is None else turned @ self._columns.T


def updated_strength(
    curvature: Curvature, weights: Array, alpha: float
) -> tuple[float, float]:
    """The new prior precision, and the effective number of weights.

    It is the fixed point of the quadratic model around the current fit under
    `alpha`, in which a precision of `alpha'` multiplies the weights of
    eigenvalue lambda by (lambda + alpha) / (lambda + alpha').
    """
    values = curvature.values
    squares = curvature.to_coordinates(weights) ** 2
    low, high = max(alpha / 100.0, 1e-6), min(alpha * 100.0, STRONGEST)
    new = alpha
    for _ in range(100):
        effective = float(np.sum(values / (values + new)))
        moved = squares * ((values + alpha) / (values + new)) ** 2
        before, new = new, effective / max(np.sum(moved), 1e-12)
        new = float(np.clip(new, low, high))
        if abs(np.log(new / before)) < 1e-3:
            break
    return new, effective


Groups: TypeAlias = dict[str, Array]
"""Weights or gradients by the name of their group."""


def fit_by_evidence(
    objective: Any, rounds: int = 12
) -> tuple[Groups, dict[str, float]]:
    """Fits all groups of an objective and the strengths of their priors.

    An objective has `shapes` (group name to shape, with unpenalised weights
    under `"free"`), `evaluate(weights)` and `curvature(name)`.
    """
    weights = {k: np.zeros(shape) for k, shape in objective.shapes.items()}
    strengths: dict[str, float] = {}
    for index in range(rounds):
        curvatures = curvatures_at(objective, weights)
        previous, moving = dict(strengths), index == 0
        for g in weights.keys() - {"free"}:
            if index == 0:
                # Start with about a tenth of the directions unpenalised.
                values = np.sort(curvatures[g].values.ravel())[::-1]
                strengths[g] = float(max(values[len(values) // 10], 1e-3))
                continue
            strengths[g], effective = updated_strength(
                curvatures[g], weights[g], previous[g]
            )
            change = abs(np.log(strengths[g] / previous[g]))
            moving |= change >= 0.05 and (effective > 0.5 or index < 3)
        if not moving:
            break
        most = 15 + 10 * index
        weights = minimise(objective, weights, curvatures, strengths, most)
    return weights, strengths


def fit_penalised(
    objective: Any, strengths: dict[str, float], iterations: int
) -> Groups:
    """Fits the weights with known strengths, from zero."""
    weights = {k: np.zeros(shape) for k, shape in objective.shapes.items()}
    curvatures = curvatures_at(objective, weights)
    return minimise(objective, weights, curvatures, strengths, iterations)


def curvatures_at(objective: Any, weights: Groups) -> dict[str, Curvature]:
    """The curvature of each group."""
    objective.evaluate(weights)
    return {name: objective.curvature(name) for name in weights}


def minimise(
    objective: Any,
    weights: Groups,
    curvatures: dict[str, Curvature],
    strengths: dict[str, float],
    iterations: int,
) -> Groups:
    """Minimises the penalised NLL by L-BFGS, preconditioned by curvature."""
    scales = {
        k: 1 / np.sqrt(c.values + strengths.get(k, 1e-9) + 1e-9)
        for k, c in curvatures.items()
    }
    ends = np.cumsum([scale.size for scale in scales.values()])[:-1]

    def to_weights(packed: Array) -> Groups:
        parts = zip(scales.items(), np.split(packed, ends), strict=True)
        return {
            k: curvatures[k].to_weights(part.reshape(scale.shape) * scale)
            for (k, scale), part in parts
        }

    def packed(parts: Groups, power: int) -> Array:
        turned = {k: c.to_coordinates(parts[k]) for k, c in curvatures.items()}
        return np.hstack(
            [(turned[k] * scales[k] ** power).ravel() for k in scales]
        )

    def penalised(at: Array) -> tuple[float, Array]:
        current = to_weights(at)
        value, gradients = objective.evaluate(current)
        for k, alpha in strengths.items():
            value += 0.5 * alpha * np.sum(current[k] ** 2)
            gradients[k] = gradients[k] + alpha * current[k]
        if not np.isfinite(value):
            return np.inf, np.zeros_like(at)
        return value, packed(gradients, 1)

    options = {"maxiter": iterations, "maxcor": 15, "ftol": 1e-8}
    start, method = packed(weights, -1), "L-BFGS-B"
    best = minimize(penalised, start, jac=True, method=method, options=options)
    return to_weights(best.x)
