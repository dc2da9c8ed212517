"""Other recalibrators, for `recalibration.py` and `arena.py`.

Each is a function of (validation, test) to calibrated test probabilities. Both
are dicts, with `logits` of networks or probabilities `p` of the arena, and `y`.
Dirichlet calibration with its off-diagonal and intercept penalty (Kull and
others, 2019) and isotonic curves mixed with temperature scaling are implemented
here.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

FOLDS = 5
PENALTIES = tuple(10.0**power for power in range(5, -4, -1))
"""Of Dirichlet calibration, from strong to weak; it stops past the best."""


def probabilities(data):
    return data["p"] if "p" in data else softmax(data["logits"], axis=1)


def probmetrics(name):
    """A calibrator of probmetrics."""

    def run(val, test):
        from probmetrics.calibrators import get_calibrator

        calibrator = get_calibrator(name)
        calibrator.fit(probabilities(val), val["y"])
        return calibrator.predict_proba(probabilities(test))

    return run


def _affine(x, y, off_diagonal, intercept):
    """Matrix and bias of multinomial regression on log-probabilities."""
    classes, rows = x.shape[1], np.arange(len(y))
    off = 1 - np.eye(classes)
    sizes = off_diagonal / (classes * (classes - 1)), intercept / classes

    def objective(packed):
        matrix = packed[: classes**2].reshape(classes, classes)
        bias = packed[classes**2 :]
        logs = log_softmax(x @ matrix + bias, axis=1)
        residual = np.exp(logs)
        residual[rows, y] -= 1
        residual /= len(y)
        value = -logs[rows, y].mean()
        value += sizes[0] * np.sum((off * matrix) ** 2)
        value += sizes[1] * np.sum(bias**2)
        gradient = x.T @ residual + 2 * sizes[0] * off * matrix
        shift = residual.sum(axis=0) + 2 * sizes[1] * bias
        return value, np.append(gradient.ravel(), shift)

    begin = np.append(np.eye(classes).ravel(), np.zeros(classes))
    found = minimize(
        objective, begin, jac=True, method="L-BFGS-B", options={"maxiter": 300}
    ).x
    return found[: classes**2].reshape(classes, classes), found[classes**2 :]


def dirichlet(val, test):
    """Dirichlet calibration; its penalty by cross-validation."""
    x = log_softmax(val["logits"].astype("float64"), axis=1)
    x, y = np.maximum(x, -30), val["y"]
    fold = np.random.default_rng(0).permutation(len(y)) % 3
    scores = {}
    for penalty in PENALTIES:
        losses = []
        for held in range(3):
            fit = _affine(x[fold != held], y[fold != held], penalty, penalty)
            logs = log_softmax(x[fold == held] @ fit[0] + fit[1], axis=1)
            label = y[fold == held]
            losses.append(-logs[np.arange(len(label)), label].mean())
        scores[penalty] = np.mean(losses)
        if scores[penalty] > min(scores.values()):
            break
    best = min(scores, key=scores.get)
    matrix, bias = _affine(x, y, best, best)
    x = np.maximum(log_softmax(test["logits"].astype("float64"), axis=1), -30)
    return softmax(x @ matrix + bias, axis=1)


def isotonic_mix(val, test):
    """One curve per class, normalised, mixed with temperature scaling."""
    from sklearn.isotonic import IsotonicRegression

    from keras_likelihood.recalibration import GlobalScaling

    def fit(z, y):
        scaling = GlobalScaling().fit_arrays(z, y)
        p = scaling.calibrate(z)
        curves = [
            IsotonicRegression(out_of_bounds="clip").fit(p[:, c], y == c)
            for c in range(z.shape[1])
        ]

        def apply(z):
            p = scaling.calibrate(z)
            q = [curve.predict(p[:, c]) for c, curve in enumerate(curves)]
            q = np.stack(q, axis=1) + 1e-9
            return p, q / q.sum(axis=1, keepdims=True)

        return apply

    z, y = val["logits"], val["y"]
    fold = np.random.default_rng(0).permutation(len(y)) % FOLDS
    held = np.empty((2, len(y)))
    for number in range(FOLDS):
        part = fold == number
        found = fit(z[~part], y[~part])(z[part])
        held[:, part] = [p[np.arange(part.sum()), y[part]] for p in found]
    shares = np.linspace(0, 1, 101)
    nll = [-np.log((1 - s) * held[0] + s * held[1]).mean() for s in shares]
    share, apply = shares[int(np.argmin(nll))], fit(z, y)
    p, q = apply(test["logits"])
    return (1 - share) * p + share * q


def auto(val, test):
    from keras_likelihood.recalibration import AutoScaling

    fitted = AutoScaling().fit_arrays(val["p"], val["y"], from_logits=False)
    return fitted.calibrate(test["p"], from_logits=False)


def cross_validated(method):
    """scikit-learn's `CalibratedClassifierCV` of given probabilities."""

    def run(val, test):
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        class Given(ClassifierMixin, BaseEstimator):
            def fit(self, x, y):
                self.classes_ = np.arange(x.shape[1])
                return self

            def predict_proba(self, x):
                return x

            def predict(self, x):
                return x.argmax(axis=1)

        base = Given().fit(val["p"], val["y"])
        model = CalibratedClassifierCV(FrozenEstimator(base), method=method)
        return model.fit(val["p"], val["y"]).predict_proba(test["p"])

    return run


def venn_abers(val, test):
    from venn_abers import VennAbersCalibrator

    return VennAbersCalibrator().predict_proba(
        p_cal=val["p"], y_cal=val["y"], p_test=test["p"]
    )


NETWORKS = {
    "probmetrics SVS": probmetrics("svs"),
    "probmetrics SMS": probmetrics("logistic"),
    "Dirichlet": dirichlet,
    "isotonic mix": isotonic_mix,
}
"""For networks."""


ARENA = {
    "none": lambda val, test: test["p"],
    "temperature": cross_validated("temperature"),
    "isotonic": cross_validated("isotonic"),
    "beta": probmetrics("beta"),
    "Venn-Abers": venn_abers,
    "SMS or affine": probmetrics("logistic"),
    "SMS": probmetrics("sms"),
    "AutoScaling": auto,
}
"""For the arena."""
