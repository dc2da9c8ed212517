"""Recalibrators that treat each class as a separate binary problem."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, softmax

from keras_likelihood.recalibration.classifier import ClassifierRecalibrator
from keras_likelihood.recalibration.inputs import LOGIT_BOUND as _BOUND
from keras_likelihood.serving.layers import OneVsRestTable, log_odds


class OneVsRest(ClassifierRecalibrator):
    """Maps each class's log-odds by a curve, then normalises.

        q_c = g_c(o_c) / sum_k g_k(o_k),    o_c = log(p_c / (1 - p_c))
        result = (1 - m) q + m p

    The share `m` of the original probabilities minimises the validation NLL.
    It is at least 1 / (n + 2), because normalising may raise the NLL and curves
    may reach zero. A subclass fits the curve of one class (`_curve`): an
    increasing table of scores and values, interpolated linearly.
    """

    keeps_accuracy = False
    _curve: Callable[..., tuple]

    def _fit(self, logits, labels, features, weight):
        logits = logits.astype("float64")
        tables = [
            self._curve(odds, labels == c, weight)
            for c, odds in enumerate(log_odds(logits, _BOUND, np).T)
        ]
        longest = max(2, *(len(scores) for scores, _ in tables))
        padded = [
            [np.pad(a, (0, longest - len(a)), mode="edge") for a in table]
            for table in tables
        ]
        scores, values = np.swapaxes(padded, 0, 1)
        self.parameters_ = {"scores": scores, "values": values}
        rows = np.arange(len(labels))
        q, p = (part[rows, labels] for part in self._mapped(logits))
        self.parameters_["mixture"] = _best_mixture(q, p, weight)

    def _mapped(self, logits):
        """The normalised curves, and the original probabilities."""
        odds, p = log_odds(logits, _BOUND, np), self.parameters_
        tables = zip(odds.T, p["scores"], p["values"], strict=True)
        q = np.stack([np.interp(*table) for table in tables], axis=1) + 1e-12
        return q / q.sum(axis=1, keepdims=True), softmax(logits, axis=1)

    def _apply(self, logits, features):
        q, p = self._mapped(logits.astype("float64"))
        m = self.parameters_["mixture"]
        return np.log((1 - m) * q + m * p)

    def _graph(self, logits, features):
        p = self.parameters_
        classes, knots = p["scores"].shape
        options = {"mixture": p["mixture"], "name": "calibrated"}
        layer = OneVsRestTable(classes, knots, _BOUND, **options)
        calibrated = layer(logits)
        layer.set_weights([p["scores"].ravel(), p["values"].ravel()])
        return calibrated


def _best_mixture(q, p, weight):
    least = 1 / (len(p) + 2)

    def nll(m):
        return -np.average(np.log((1 - m) * q + m * p), weights=weight)

    found = minimize_scalar(nll, bounds=(least, 1.0), method="bounded")
    # The search does not reach its bounds. One of them is the identity.
    return float(min((found.x, 1.0, least), key=nll))


class Platt(OneVsRest):
    """Logistic regression of each class on its own log-odds.

        g_c(o) = sigmoid(a_c o + b_c),    a_c > 0

    It is fitted to Platt's smoothed targets. With binary labels it is Platt
    scaling. The curve is stored as a table of 1025 knots. It may change the
    predicted classes.
    """

    def _curve(self, odds, occurred, weight):
        yes = weight[occurred].sum()
        no = weight.sum() - yes
        target = np.where(occurred, (yes + 1) / (yes + 2), 1 / (no + 2))

        def loss(theta):
            linear = theta[0] * odds + theta[1]
            slope = weight * (expit(linear) - target) / weight.sum()
            value = weight @ (np.logaddexp(0, linear) - target * linear)
            return value / weight.sum(), np.array([slope @ odds, slope.sum()])

        found = minimize(
            loss,
            [1.0, 0.0],
            jac=True,
            bounds=[(0.0, None), (None, None)],
            options={"ftol": 1e-14, "gtol": 1e-9},
        )
        knots = np.linspace(-_BOUND, _BOUND, 1025)
        return knots, expit(found.x[0] * knots + found.x[1])


class Isotonic(OneVsRest):
    """Isotonic regression of each class's probability (scikit-learn's).

    It may change the predicted classes, and it needs many examples of each
    class.

    >>> probabilities = Isotonic().fit_arrays(logits, y).calibrate(logits)
    """

    def _curve(self, odds, occurred, weight):
        from sklearn.isotonic import IsotonicRegression

        curve = IsotonicRegression(y_min=0, y_max=1)
        curve.fit(odds, occurred, sample_weight=weight)
        return curve.X_thresholds_, curve.y_thresholds_
