"""Weights of a linear pool."""

import numpy as np

_PRIOR_ROWS = 1.0


def pool_weights(losses, weight=None, iterations=2000):
    """The weights of a mixture of fixed distributions, by EM.

    It minimises the mean of -log sum_c w_c p_c over the simplex, which is
    convex. One row is added that all candidates explain equally well. Half of
    it counts for the first candidate, the simplest.

    Args:
        losses: -log p_c of every row's label, `(rows, candidates)`.
        weight: `(rows,)`, or `None`.
        iterations: largest number of iterations.
    """
    rows, candidates = losses.shape
    likelihood = np.exp(losses.min(axis=1, keepdims=True) - losses)
    weight = np.ones(rows) if weight is None else weight / np.mean(weight)
    prior = np.full(candidates, 0.5 * _PRIOR_ROWS / candidates)
    prior[0] += 0.5 * _PRIOR_ROWS
    total = weight.sum() + prior.sum()
    found = np.full(candidates, 1 / candidates)
    for _ in range(iterations):
        mixture = likelihood @ found
        new = found * (likelihood.T @ (weight / mixture)) + prior
        new /= total
        moved = np.abs(new - found).max()
        found = new
        if moved < 1e-5:
            break
    return found / found.sum()
