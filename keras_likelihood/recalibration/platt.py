"""A logistic curve for each class."""

import numpy as np
from scipy.special import expit, logit

from keras_likelihood.recalibration.one_vs_rest import OneVsRest

_KNOTS = 257


class Platt(OneVsRest):
    """Logistic regression of each class on its own log-odds.

        g_c(p) = sigmoid(a_c log(p / (1 - p)) + b_c),    a_c > 0

    fitted to Platt's smoothed targets by Newton's method. For yes/no
    questions it is Platt scaling itself. The curve is kept as a table of 257
    knots, dense towards 0 and 1. May change the predicted classes.
    """

    def _curves(self, p, labels, weight):
        weight = np.ones(len(p)) if weight is None else weight
        knots = np.linspace(-30, 30, _KNOTS)
        tables = []
        for c in range(p.shape[1]):
            odds = logit(np.clip(p[:, c], 1e-13, 1 - 1e-13))
            slope, shift = _logistic(odds, labels == c, weight)
            values = expit(slope * knots + shift)
            tables.append((expit(knots), values))
        return tables


def _logistic(x, occurred, weight):
    yes = weight[occurred].sum()
    no = weight.sum() - yes
    target = np.where(occurred, (yes + 1) / (yes + 2), 1 / (no + 2))
    design = np.stack([x, np.ones_like(x)], axis=1)
    theta = np.array([1.0, 0.0])

    def loss(theta):
        linear = design @ theta
        return weight @ (np.logaddexp(0, linear) - target * linear)

    for _ in range(50):
        p = expit(design @ theta)
        gradient = design.T @ (weight * (p - target))
        curvature = (design * (weight * p * (1 - p))[:, None]).T @ design
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), gradient)
        size, before = 1.0, loss(theta)
        while loss(theta - size * step) > before and size > 1e-6:
            size /= 2
        theta = theta - size * step
        if np.abs(size * step).max() < 1e-9:
            break
    return max(theta[0], 0.0), theta[1]
