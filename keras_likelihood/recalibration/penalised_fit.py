"""Penalised fits with strengths estimated by evidence (MacKay, 1992)."""

import dataclasses

import numpy as np

STRONGEST = 1e9
_MOST_DIRECTIONS = 5000


def updated_strength(curvature, weights, alpha):
    """The new prior precision, and the effective number of weights.

    It is the fixed point of the quadratic model around the current fit under
    `alpha`, in which a precision of `alpha'` multiplies the weights of
    eigenvalue lambda by (lambda + alpha) / (lambda + alpha'). So it does not
    need a new fit. The change is limited to a factor of 100, beyond which the
    quadratic model is not valid.
    """
    values, squares, counts = _binned(
        curvature.values.ravel(), curvature.to_coordinates(weights).ravel() ** 2
    )
    low, high = alpha / 100.0, alpha * 100.0
    new = alpha
    for _ in range(100):
        effective = np.sum(counts * values / (values + new))
        moved = squares * ((values + alpha) / (values + new)) ** 2
        target = effective / max(np.sum(moved), 1e-12)
        target = float(np.clip(np.clip(target, 1e-6, STRONGEST), low, high))
        if abs(np.log(target / new)) < 1e-3:
            return target, float(effective)
        new = target
    return new, float(effective)


def _binned(values, squares):
    """Mean eigenvalues, sums of squared coordinates, and counts per bin."""
    if values.size <= _MOST_DIRECTIONS:
        return values, squares, np.ones_like(values)
    largest = max(values.max(), 1e-300)
    # 200 bins per decade, down to 1e-10 of the largest eigenvalue.
    bins = np.log10(np.maximum(values / largest, 1e-10)) * 200.0
    bins = np.round(bins).astype(int) + 2000
    counts = np.bincount(bins)
    found = counts > 0
    means = np.bincount(bins, values)[found] / counts[found]
    return means, np.bincount(bins, squares)[found], counts[found]


@dataclasses.dataclass
class EvidenceFit:
    """Weights and prior precisions, both by group name."""

    weights: dict
    strengths: dict


def fit_by_evidence(objective, rounds=12) -> EvidenceFit:
    """Fits all groups of an objective and the strengths of their priors.

    An objective has `shapes` (group name to shape, with unpenalised weights
    under `"free"`), `evaluate(weights) -> (nll, gradients)` summed over rows,
    and `curvature(name)` at the last evaluation.
    """
    weights = _starting_weights(objective)
    groups = [name for name in weights if name != "free"]
    strengths: dict = {}
    effective: dict = {}
    for index in range(rounds):
        curvatures = _curvatures(objective, weights)
        if index == 0:
            # Start with about a tenth of the directions unpenalised.
            for g in groups:
                values = np.sort(curvatures[g].values.ravel())[::-1]
                strengths[g] = float(max(values[len(values) // 10], 1e-3))
        else:
            previous = dict(strengths)
            for g in groups:
                strengths[g], effective[g] = updated_strength(
                    curvatures[g], weights[g], previous[g]
                )
            if all(
                abs(np.log(strengths[g] / previous[g])) < 0.05
                for g in groups
                if effective[g] > 0.5 or index < 3
            ):
                break
        most = 15 + 10 * index
        weights = minimise(objective, weights, curvatures, strengths, most)
    return EvidenceFit(weights, strengths)


def fit_penalised(objective, strengths, iterations, weights=None):
    """Fits the weights with known strengths."""
    weights = _starting_weights(objective, weights)
    curvatures = _curvatures(objective, weights)
    return minimise(objective, weights, curvatures, strengths, iterations)


def _starting_weights(objective, known=None):
    zero = {k: np.zeros(shape) for k, shape in objective.shapes.items()}
    return {k: (known or zero).get(k, v) for k, v in zero.items()}


def _curvatures(objective, weights):
    objective.evaluate(weights)
    return {name: objective.curvature(name) for name in weights}


def minimise(objective, weights, curvatures, strengths, iterations):
    """Minimises the penalised NLL by L-BFGS, preconditioned by curvature."""
    from scipy.optimize import minimize

    scales = {
        k: 1 / np.sqrt(c.values + strengths.get(k, 1e-9) + 1e-9)
        for k, c in curvatures.items()
    }

    def coordinates(parts, times):
        turned = {k: curvatures[k].to_coordinates(v) for k, v in parts.items()}
        return np.hstack(
            [times(v, scales[k]).ravel() for k, v in turned.items()]
        )

    shapes = objective.shapes
    ends = np.cumsum([int(np.prod(s)) for s in shapes.values()])[:-1]

    def to_weights(packed):
        parts = np.split(packed, ends)
        return {
            k: curvatures[k].to_weights(part.reshape(shape) * scales[k])
            for part, (k, shape) in zip(parts, shapes.items(), strict=True)
        }

    def penalised(packed):
        current = to_weights(packed)
        value, gradients = objective.evaluate(current)
        for k, alpha in strengths.items():
            value += 0.5 * alpha * np.sum(current[k] ** 2)
            gradients[k] = gradients[k] + alpha * current[k]
        if not np.isfinite(value):
            return np.inf, np.zeros_like(packed)
        return value, coordinates(gradients, np.multiply)

    found = minimize(
        penalised,
        coordinates(weights, np.divide),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": iterations, "maxcor": 15, "ftol": 1e-8},
    )
    return to_weights(found.x)
