"""The best linear denoiser, in closed form."""

import numpy as np

LEVELS = (0.25, 1.0)
"""Levels of noise, relative to the deviation of a column."""
_FREEDOM = 4.0
_STEPS = 10


def robust_moments(z):
    """Mean and scatter of rows `(n, d)` under a multivariate Student's t.

    Rows far away get a low weight. The mean variance of the scatter is 1.
    """
    n, d = z.shape
    weight = np.ones(n)
    for _ in range(_STEPS):
        mean = weight @ z / weight.sum()
        centred = z - mean
        scatter = (centred * weight[:, None]).T @ centred / n
        size = max(np.trace(scatter) / d, 1e-30)
        squares = _squares(centred, scatter / size, np.sqrt(1e-3)) / size
        weight = (_FREEDOM + d) / (_FREEDOM + squares)
    return mean, scatter / size


def _squares(centred, scatter, level):
    solved = np.linalg.solve(
        scatter + level**2 * np.eye(len(scatter)), centred.T
    )
    return (centred * solved.T).sum(axis=1)


def linear_scores(z, mean, scatter):
    """Joint and element-wise errors for each level of noise.

        joint = (z - mean)' (scatter + level^2)^-1 (z - mean)
        element_j = |z_j - E[z_j | the others]| / its deviation

    Noise of the given level is added to the columns. Little noise finds rows
    that break fine correlations. Much noise finds rows far away.

    Returns:
        Joint errors `(n, levels)` and element-wise ones `(n, levels * d)`.
    """
    centred = z - mean
    joint, elements = [], []
    for level in LEVELS:
        precision = np.linalg.inv(scatter + level**2 * np.eye(len(scatter)))
        solved = centred @ precision
        joint.append((centred * solved).sum(axis=1))
        elements.append(np.abs(solved) / np.sqrt(np.diag(precision)))
    return np.stack(joint, axis=1), np.concatenate(elements, axis=1)
