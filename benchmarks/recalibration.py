"""NLL, ECE, accuracy and fit time of recalibrated classifiers.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/recalibration.py
    KERAS_LIKELIHOOD_DATA=... python benchmarks/recalibration.py --speed

Every method is fitted to the validation logits of each file and judged on
the test logits, beside scikit-learn's temperature scaling, netcal and
probmetrics where these are installed. `floor` is the ECE that labels drawn
from the calibrated probabilities themselves would have: an ECE of that size
is what a perfect calibration shows on so few rows.

`--speed` times temperature scaling on random logits of 50,000 x 1,000, the
methods taking turns.
"""

import argparse
import os
import pathlib
import time
import warnings

import numpy as np
from scipy.special import softmax

from keras_likelihood import recalibration
from keras_likelihood.metrics.functions import (
    expected_calibration_error,
    negative_log_likelihood,
)

METHODS = (
    "GlobalScaling LinearScaling LinearFeatureScaling DeepScaling Platt "
    "Isotonic VectorScaling MatrixScaling Auto"
)


def ours(name):
    """A function from (validation, test) to calibrated test probabilities."""

    def run(val, test):
        method = getattr(recalibration, name)()
        method.fit_arrays(val["logits"], val["y"], val["features"])
        yield
        yield method.calibrate(test["logits"], test["features"])

    return run


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


PEERS = {
    "scikit-learn TS": scikit_learn,
    "netcal TS": netcal,
    "probmetrics TS": probmetrics("temp-scaling"),
    "probmetrics logistic": probmetrics("logistic"),
    "torch LBFGS loop": lbfgs_loop,
}


def ece_floor(p, draws=20):
    """Mean ECE of `p` on labels that `p` itself draws."""
    random = np.random.default_rng(0)
    upper = np.cumsum(p, axis=1)
    drawn = [
        np.argmax(upper > random.random((len(p), 1)) * upper[:, -1:], axis=1)
        for _ in range(draws)
    ]
    return np.mean([expected_calibration_error(y, p) for y in drawn])


def measure(run, val, test):
    """Returns (NLL, ECE, floor, accuracy, seconds), or `None`."""
    steps = run(val, test)
    started = time.perf_counter()
    try:
        next(steps)
    except ImportError:
        return None
    seconds = time.perf_counter() - started
    p = np.asarray(next(steps), dtype="float64")
    p = p / p.sum(axis=1, keepdims=True)
    y = test["y"]
    return (
        negative_log_likelihood(y, np.maximum(p, np.exp(-60.0))),
        expected_calibration_error(y, p),
        ece_floor(p),
        float(np.mean(p.argmax(axis=1) == y)),
        seconds,
    )


def part_of(file, part):
    features = f"features_{part}"
    return {
        "logits": file[f"logits_{part}"],
        "y": file[f"y_{part}"].astype("int64"),
        "features": file[features] if features in file else None,
    }


def compare(folder, files, methods):
    for path in sorted(pathlib.Path(folder, "logits").glob(f"{files}.npz")):
        with np.load(path) as file:
            val, test = part_of(file, "val"), part_of(file, "test")
        print(
            path.stem,
            f"{'NLL':>28} {'ECE':>7} {'floor':>7} {'acc':>7} {'s':>8}",
        )
        runs = {"Uncalibrated": uncalibrated}
        runs |= {name: ours(name) for name in methods}
        for name, run in (runs | PEERS).items():
            needs = name in ("LinearFeatureScaling", "DeepScaling")
            if needs and val["features"] is None:
                continue
            found = measure(run, val, test)
            if found is None:
                print(f"  {name:22} not installed")
                continue
            nll, ece, floor, accuracy, seconds = found
            print(
                f"  {name:22} {nll:12.4f} {ece:7.4f} {floor:7.4f} "
                f"{accuracy:7.4f} {seconds:8.2f}",
                flush=True,
            )


def speed(rows, classes, repeats):
    random = np.random.default_rng(0)
    logits = random.standard_normal((rows, classes), dtype="float32") * 2
    y = np.argmax(
        logits / 1.7 + random.gumbel(size=logits.shape).astype("float32"),
        axis=1,
    )
    val = {"logits": logits, "y": y, "features": None}
    runs = {n: ours(n) for n in ("GlobalScaling", "LinearScaling")} | PEERS
    del runs["probmetrics logistic"]
    times, scores = {}, {}
    for _ in range(repeats):
        for name, run in runs.items():
            steps = run(val, {k: v for k, v in val.items()})
            started = time.perf_counter()
            try:
                next(steps)
            except ImportError:
                continue
            times.setdefault(name, []).append(time.perf_counter() - started)
            print(f"  {name:22} {times[name][-1]:8.2f} s", flush=True)
            if name not in scores:
                p = np.asarray(next(steps), dtype="float64")
                scores[name] = negative_log_likelihood(y, p)
    base = min(times["GlobalScaling"])
    print(f"{rows} x {classes}, best of {repeats}")
    for name, seconds in times.items():
        best = min(seconds)
        print(
            f"  {name:22} {best:8.2f} s {best / base:7.1f} x   "
            f"NLL {scores[name]:.6f}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", default="*")
    parser.add_argument("--methods", nargs="*", default=METHODS.split())
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if arguments.speed:
        speed(arguments.rows, arguments.classes, arguments.repeats)
        return
    folder = os.environ["KERAS_LIKELIHOOD_DATA"]
    compare(folder, arguments.files, arguments.methods)


if __name__ == "__main__":
    main()
