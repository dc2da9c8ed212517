"""Penalised fits. The strength of the penalties comes from the data.

Every group of weights theta_g has a normal prior of precision alpha_g around
zero. Weights of zero mean the simplest recalibration. Its strength maximises
the marginal likelihood in Laplace's approximation, by MacKay's fixed point:

    gamma = sum_j lambda_j / (lambda_j + alpha),    alpha = gamma / |theta|^2

where lambda_j are the eigenvalues of the group's curvature. `gamma` counts the
weights that the data determine. No data are held out, and no test set is used.
One fit finds the strengths.
"""

import dataclasses

import numpy as np

STRONGEST = 1e9


@dataclasses.dataclass
class Curvature:
    """Eigenvalues and eigenbasis of one group's Gauss-Newton matrix.

    The matrix is `left` alone, or the Kronecker product of `left` (rows of
    the group's weights) and `right` (columns).

    Args:
        values: eigenvalues, of the shape of the group.
        left: eigenvectors of the rows, in columns.
        right: eigenvectors of the columns, or `None`.
    """

    values: np.ndarray
    left: np.ndarray
    right: np.ndarray | None = None

    @classmethod
    def of(cls, matrix):
        values, vectors = np.linalg.eigh(matrix)
        return cls(np.maximum(values, 0.0), vectors)

    @classmethod
    def of_product(cls, left, right):
        rows, columns = cls.of(left), cls.of(right)
        return cls(
            np.multiply.outer(rows.values, columns.values),
            rows.left,
            columns.left,
        )

    def scaled(self, factor):
        return dataclasses.replace(self, values=self.values * factor)

    def to_weights(self, coordinates):
        weights = self.left @ coordinates
        return weights if self.right is None else weights @ self.right.T

    def to_coordinates(self, weights):
        coordinates = self.left.T @ weights
        return coordinates if self.right is None else coordinates @ self.right


@dataclasses.dataclass
class EvidenceFit:
    """Weights by group and their prior precisions.

    Args:
        weights: group name to array.
        strengths: group name to alpha.
        effective: group name to gamma.
    """

    weights: dict
    strengths: dict
    effective: dict = dataclasses.field(default_factory=dict)


def fit_by_evidence(
    objective, rounds=12, *, fixed=None, weights=None
) -> EvidenceFit:
    """Fits all groups of an objective and the strengths of their priors.

    Args:
        objective: has `shapes` (group name to shape, ungrouped free weights
            under `"free"`), `evaluate(weights) -> (nll, gradients)` summed
            over rows, and `curvature(name)` at the last evaluation.
        rounds: largest number of updates of the strengths.
        fixed: strengths of groups whose strength does not change.
        weights: weights to start from, by group. The default is zero.
    """
    fixed = fixed or {}
    weights = starting_weights(objective, weights)
    groups = [name for name in weights if name not in ("free", *fixed)]
    strengths: dict = {}
    effective: dict = {}
    for index in range(rounds):
        objective.evaluate(weights)
        curvatures = {name: objective.curvature(name) for name in weights}
        if index == 0:
            strengths = {g: _typical(curvatures[g]) for g in groups}
            strengths.update(fixed)
        else:
            previous = dict(strengths)
            for g in groups:
                strengths[g], effective[g] = updated_strength(
                    curvatures[g], weights[g], previous[g]
                )
            settled = all(
                abs(np.log(strengths[g] / previous[g])) < 0.05
                for g in groups
                if effective[g] > 0.5 or index < 3
            )
            if settled:
                break
        weights = minimise(
            objective, weights, curvatures, strengths, 15 + 10 * index
        )
    return EvidenceFit(weights, strengths, effective)


def fit_penalised(objective, strengths, iterations, weights=None):
    """Fits the weights with known strengths."""
    weights = starting_weights(objective, weights)
    objective.evaluate(weights)
    curvatures = {name: objective.curvature(name) for name in weights}
    return minimise(objective, weights, curvatures, strengths, iterations)


def starting_weights(objective, weights=None):
    """The given weights of an objective's groups, zero for the others."""
    weights = weights or {}
    return {k: weights.get(k, np.zeros(s)) for k, s in objective.shapes.items()}


def _typical(curvature):
    """A strength at which a tenth of the directions can change."""
    values = np.sort(curvature.values.ravel())[::-1]
    return float(max(values[len(values) // 10], 1e-3))


def updated_strength(curvature, weights, alpha):
    """The fixed point of the quadratic model around the present fit.

    In that model, a precision of `alpha'` multiplies the weights of eigenvalue
    lambda by (lambda + alpha) / (lambda + alpha'). So the fixed point needs no
    new fit.
    """
    values = curvature.values
    present = curvature.to_coordinates(weights)
    new = alpha
    for _ in range(100):
        effective = np.sum(values / (values + new))
        moved = present * (values + alpha) / (values + new)
        target = effective / max(np.sum(moved**2), 1e-12)
        target = float(np.clip(target, 1e-6, STRONGEST))
        # The quadratic model is not valid far from here.
        target = float(np.clip(target, alpha / 100, alpha * 100))
        if abs(np.log(target / new)) < 1e-3:
            return target, float(effective)
        new = target
    return new, float(effective)


def minimise(objective, weights, curvatures, strengths, iterations):
    """L-BFGS on the penalised NLL, in coordinates of unit curvature."""
    from scipy.optimize import minimize

    scales = {
        k: 1 / np.sqrt(c.values + strengths.get(k, 1e-9) + 1e-9)
        for k, c in curvatures.items()
    }

    def to_weights(packed):
        parts = _unpack(packed, objective.shapes)
        return {
            k: curvatures[k].to_weights(v * scales[k]) for k, v in parts.items()
        }

    def penalised(packed):
        current = to_weights(packed)
        value, gradients = objective.evaluate(current)
        for k, alpha in strengths.items():
            value += 0.5 * alpha * np.sum(current[k] ** 2)
            gradients[k] = gradients[k] + alpha * current[k]
        if not np.isfinite(value):
            return np.inf, np.zeros_like(packed)
        return value, _pack(
            {
                k: curvatures[k].to_coordinates(g) * scales[k]
                for k, g in gradients.items()
            }
        )

    begin = _pack(
        {
            k: curvatures[k].to_coordinates(v) / scales[k]
            for k, v in weights.items()
        }
    )
    found = minimize(
        penalised,
        begin,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "maxcor": 15, "ftol": 1e-8},
    )
    return to_weights(found.x)


def _pack(parts):
    return np.concatenate([np.ravel(v) for v in parts.values()])


def _unpack(packed, shapes):
    parts, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        parts[name] = packed[at : at + size].reshape(shape)
        at += size
    return parts
