"""Recalibrators that treat each class as a separate yes/no question."""

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, softmax

from keras_likelihood.layers.serving import OneVsRestTable
from keras_likelihood.recalibration import inputs
from keras_likelihood.recalibration.classifier import ClassifierRecalibrator


class OneVsRest(ClassifierRecalibrator):
    """Maps each class's log-odds by a curve, then normalises.

        q_c = g_c(o_c) / sum_k g_k(o_k),    o_c = log(p_c / (1 - p_c))
        result = (1 - m) q + m p

    The share `m` of the probabilities before recalibration minimises the
    validation NLL. It is at least 1 / (n + 2), because normalising may raise
    the NLL and curves may reach zero. A subclass defines `_curves`.

    The curves are tables. Between two knots the values are linear.
    """

    keeps_accuracy = False

    def _curves(self, odds, labels, weight):
        """Returns `[(scores, values)]`, one rising table for each class."""
        raise NotImplementedError

    def _fit(self, logits, labels, features, weight):
        odds = log_odds(logits)
        tables = self._curves(odds, labels, weight)
        longest = max(2, *(len(s) for s, _ in tables))
        pad = [
            [np.pad(a, (0, longest - len(a)), mode="edge") for a in table]
            for table in tables
        ]
        self.parameters_ = {
            "scores": np.array([s for s, _ in pad]),
            "values": np.array([v for _, v in pad]),
            "mixture": 0.0,
        }
        rows = np.arange(len(labels))
        q = self._mapped(odds)[rows, labels]
        p = softmax(logits.astype("float64"), axis=1)[rows, labels]
        self.parameters_["mixture"] = _best_mixture(q, p, weight)

    def _mapped(self, odds):
        q = np.empty_like(odds)
        tables = zip(
            self.parameters_["scores"], self.parameters_["values"], strict=True
        )
        for c, (scores, values) in enumerate(tables):
            q[:, c] = np.interp(odds[:, c], scores, values) + 1e-12
        return q / q.sum(axis=1, keepdims=True)

    def _apply(self, logits, features):
        p = softmax(logits.astype("float64"), axis=1)
        m = self.parameters_["mixture"]
        mapped = self._mapped(log_odds(logits))
        return np.log((1 - m) * mapped + m * p)

    def _graph(self, logits, features):
        scores = self.parameters_["scores"]
        layer = OneVsRestTable(
            classes=scores.shape[0],
            knots=scores.shape[1],
            bound=inputs.LOGIT_BOUND,
            mixture=self.parameters_["mixture"],
            name="calibrated",
        )
        calibrated = layer(logits)
        values = self.parameters_["values"]
        layer.set_weights([scores.ravel(), values.ravel()])
        return calibrated


def log_odds(logits):
    """`z_c - logsumexp(z without c)`, between -30 and 30.

    The largest exponential is left out of the sum of the others. Subtracting
    it from the whole sum would leave only rounding errors.
    """
    shifted = logits.astype("float64")
    shifted = shifted - shifted.max(axis=1, keepdims=True)
    size, top = np.exp(shifted), shifted == 0
    count = top.sum(axis=1, keepdims=True)
    others = np.sum(size * ~top, axis=1, keepdims=True)
    rest = others + (count - 1) + ~top * (1 - size)
    odds = shifted - np.log(np.maximum(rest, 1e-30))
    return np.clip(odds, -inputs.LOGIT_BOUND, inputs.LOGIT_BOUND)


def _best_mixture(q, p, weight):
    least = 1 / (len(p) + 2)

    def nll(m):
        return -np.average(np.log((1 - m) * q + m * p), weights=weight)

    found = minimize_scalar(nll, bounds=(least, 1.0), method="bounded")
    # The search does not reach its bounds. One of them is the identity.
    return float(min((found.x, 1.0, least), key=nll))


_KNOTS = 1025


class Platt(OneVsRest):
    """Logistic regression of each class on its own log-odds.

        g_c(o) = sigmoid(a_c o + b_c),    a_c > 0

    It is fitted to Platt's smoothed targets. For yes/no
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

    def loss(theta):
        linear = theta[0] * x + theta[1]
        slope = weight * (expit(linear) - target) / weight.sum()
        value = weight @ (np.logaddexp(0, linear) - target * linear)
        return value / weight.sum(), np.array([slope @ x, slope.sum()])

    found = minimize(
        loss,
        [1.0, 0.0],
        jac=True,
        bounds=[(0.0, None), (None, None)],
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    return found.x


class Isotonic(OneVsRest):
    """Isotonic regression of each class's probability (scikit-learn's).

    It may change the predicted classes, and it needs many examples of each
    class.

    >>> probabilities = Isotonic().fit_arrays(logits, y).calibrate(logits)
    """

    def _curves(self, odds, labels, weight):
        from sklearn.isotonic import IsotonicRegression

        tables = []
        for c in range(odds.shape[1]):
            curve = IsotonicRegression(y_min=0, y_max=1)
            curve.fit(odds[:, c], labels == c, sample_weight=weight)
            tables.append((curve.X_thresholds_, curve.y_thresholds_))
        return tables
