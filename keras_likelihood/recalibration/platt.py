"""A logistic curve for each class."""

import numpy as np
from scipy.special import expit

from keras_likelihood.recalibration import inputs
from keras_likelihood.recalibration.one_vs_rest import OneVsRest

_KNOTS = 1025


class Platt(OneVsRest):
    """Logistic regression of each class on its own log-odds.

        g_c(o) = sigmoid(a_c o + b_c),    a_c > 0

    It is fitted to Platt's smoothed targets by Newton's method. For yes/no
    questions it is Platt scaling itself. The curve is stored as a table of
    1025 knots. It may change the predicted classes.
    """

    def _curves(self, odds, labels, weight):
        weight = np.ones(len(odds)) if weight is None else weight
        knots = np.linspace(-inputs.LOGIT_BOUND, inputs.LOGIT_BOUND, _KNOTS)
        tables = []
        for c in range(odds.shape[1]):
            slope, shift = _logistic(odds[:, c], labels == c, weight)
            tables.append((knots, expit(slope * knots + shift)))
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
