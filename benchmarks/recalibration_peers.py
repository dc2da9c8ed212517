"""Other recalibrators, for `benchmarks/recalibration.py`.

Each is a generator function of (validation, test): it fits up to its first
`yield`, and then yields calibrated test probabilities. Methods that are not in
an installed package are implemented here: ensemble temperature scaling (Zhang
and others, 2020), Dirichlet calibration with its off-diagonal and intercept
penalty (Kull and others, 2019), and isotonic curves mixed with temperature
scaling.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, softmax

FOLDS = 5
PENALTIES = tuple(10.0**power for power in range(5, -4, -1))
"""Of Dirichlet calibration, from strong to weak; it stops past the best."""


def uncalibrated(val, test):
    yield
    yield softmax(test["logits"].astype("float64"), axis=1)


def scikit_learn(val, test):
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Logits(ClassifierMixin, BaseEstimator):
        def __init__(self, classes=2):
            self.classes = classes

        @property
        def classes_(self):
            return np.arange(self.classes)

        def fit(self, x, y):
            return self

        def __sklearn_is_fitted__(self):
            return True

        def decision_function(self, x):
            return x

        def predict(self, x):
            return x.argmax(axis=1)

    base = Logits(val["logits"].shape[1])
    model = CalibratedClassifierCV(FrozenEstimator(base), method="temperature")
    model.fit(val["logits"], val["y"])
    yield
    yield model.predict_proba(test["logits"])


def netcal(val, test):
    from netcal.scaling import TemperatureScaling

    # Its solver takes differences of the NLL: in float32 they are noise, and
    # it returns its input.
    scaling = TemperatureScaling()
    scaling.fit(softmax(val["logits"].astype("float64"), axis=1), val["y"])
    yield
    yield scaling.transform(softmax(test["logits"].astype("float64"), axis=1))


def probmetrics(name):
    def run(val, test):
        from probmetrics.calibrators import get_calibrator

        calibrator = get_calibrator(name)
        calibrator.fit(softmax(val["logits"], axis=1), val["y"])
        yield
        yield calibrator.predict_proba(softmax(test["logits"], axis=1))

    return run


def lbfgs_loop(val, test):
    """Temperature scaling as most scripts do it: torch's LBFGS, lr 0.01."""
    import torch

    logits = torch.from_numpy(val["logits"].astype("float32"))
    labels = torch.from_numpy(val["y"].astype("int64"))
    temperature = torch.nn.Parameter(torch.full((1,), 1.5))
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.LBFGS([temperature], lr=0.01, max_iter=50)

    def closure():
        optimizer.zero_grad()
        loss = criterion(logits / temperature, labels)
        loss.backward()
        return loss

    optimizer.step(closure)
    yield
    yield softmax(test["logits"] / temperature.item(), axis=1)


def ensemble_temperature_scaling(val, test):
    """w1 softmax(z / T) + w2 softmax(z) + w3 / classes, all fitted."""
    z, y = val["logits"].astype("float64"), val["y"]
    classes, rows = z.shape[1], np.arange(len(y))
    # Only the temperature changes, and only what the labels get counts.
    z = z - z.max(axis=1, keepdims=True)
    as_it_is = log_softmax(z, axis=1)[rows, y]

    def loss(packed):
        warmth = np.exp(-packed[0])
        warm = warmth * z[rows, y] - np.log(np.exp(warmth * z).sum(axis=1))
        parts = np.stack([warm, as_it_is, np.full(len(y), -np.log(classes))])
        weights = log_softmax(np.append(packed[1:], 0.0))
        return -logsumexp(weights[:, None] + parts, axis=0).mean()

    found = minimize(
        loss, [0.5, 2.0, 0.0], method="Nelder-Mead", options={"maxiter": 200}
    ).x
    yield
    logits = test["logits"].astype("float64")
    weights = softmax(np.append(found[1:], 0.0))
    yield (
        weights[0] * softmax(logits * np.exp(-found[0]), axis=1)
        + weights[1] * softmax(logits, axis=1)
        + weights[2] / classes
    )


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
    yield
    x = np.maximum(log_softmax(test["logits"].astype("float64"), axis=1), -30)
    yield softmax(x @ matrix + bias, axis=1)


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
    yield
    p, q = apply(test["logits"])
    yield (1 - share) * p + share * q


PEERS = {
    "scikit-learn TS": scikit_learn,
    "netcal TS": netcal,
    "probmetrics TS": probmetrics("ts-mix"),
    "probmetrics SVS": probmetrics("svs"),
    "probmetrics SMS": probmetrics("logistic"),
    "torch LBFGS loop": lbfgs_loop,
    "ETS": ensemble_temperature_scaling,
    "Dirichlet": dirichlet,
    "isotonic mix": isotonic_mix,
}


def auto(val, test):
    from keras_likelihood.recalibration import AutoScaling

    fitted = AutoScaling().fit_arrays(val["p"], val["y"], from_logits=False)
    return fitted.calibrate(test["p"], from_logits=False)


def of_probabilities(name):
    """A calibrator of probmetrics, for the arena."""

    def run(val, test):
        from probmetrics.calibrators import get_calibrator

        calibrator = get_calibrator(name)
        calibrator.fit(val["p"], val["y"])
        return calibrator.predict_proba(test["p"])

    return run


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


ARENA = {
    "none": lambda val, test: test["p"],
    "temperature": cross_validated("temperature"),
    "isotonic": cross_validated("isotonic"),
    "beta": of_probabilities("beta"),
    "Venn-Abers": venn_abers,
    "SMS or affine": of_probabilities("logistic"),
    "SMS": of_probabilities("sms"),
    "AutoScaling": auto,
}
"""Functions of (validation, test), dicts of `p` and `y`, for the arena."""
