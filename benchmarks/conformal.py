"""Compares conformal intervals and sets with MAPIE.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... python benchmarks/conformal.py

needs `pip install mapie`. On each regression set a network of 50 hidden units
with a normal head is fitted to 60 % of the rows (at most 3,000), calibrated on
20 % (at most 1,000) and evaluated on the rest (at most 2,000), on ten random
splits; both packages get the same network. Logits are recalibrated by
`GlobalScaling` on one half of `val`, calibrated on the other half and evaluated
on `test`: once as in the files, and on ten random splits of both.
"""

import argparse
import json
import os
import pathlib

import keras
import numpy as np
from mapie import classification
from mapie import regression as mapie_regression
from mapie.conformity_scores import ResidualNormalisedScore
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

import keras_likelihood as kl
from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.recalibration import Conformal, GlobalScaling

COVERAGE = 0.9
BATCHES = 10
OURS = {"ours": "auto", "ours, trust 1": 1.0}


class Given(RegressorMixin, BaseEstimator):
    """A regressor that looks its predictions up: `x` are row numbers."""

    fitted_ = True

    def __init__(self, values=None):
        self.values = values

    def fit(self, x, y):
        return self

    def predict(self, x):
        return self.values[np.asarray(x)[:, 0].astype(int)]

    def __sklearn_is_fitted__(self):
        return True


class GivenClasses(ClassifierMixin, Given):
    """The same for probabilities."""

    @property
    def classes_(self):
        return np.arange(self.values.shape[1])

    def predict_proba(self, x):
        return super().predict(x)

    def predict(self, x):
        return self.predict_proba(x).argmax(axis=1)


def load(path):
    with np.load(path) as file:
        return file["X"].astype("float64"), file["y"].astype("float32")


def split(x, y, seed):
    """Training, calibration and test rows; inputs scaled by the first."""
    order = np.random.default_rng(seed).permutation(len(y))
    # Whole batches alone: a rest would be compiled by itself.
    train = min(int(0.6 * len(y)), 3000) // BATCHES * BATCHES
    held = min(int(0.2 * len(y)), 1000)
    rows = np.split(order[: train + held + 2000], [train, train + held])
    mean, deviation = np.nanmean(x[rows[0]], 0), np.nanstd(x[rows[0]], 0)
    x = np.where(np.isnan(x), mean, x) - mean
    x = np.clip(x / np.where(deviation > 0, deviation, 1), -10, 10)
    return [(x[r].astype("float32"), y[r]) for r in rows]


def build(columns, seed):
    keras.utils.set_random_seed(seed)
    inputs = keras.Input((columns,))
    features = keras.layers.Dense(50, activation="relu")(inputs)
    head = kl.layers.ScaleHead(1, constraint="shifted_softplus")
    outputs = head(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.01), loss=kl.losses.NormalLoss())
    return model


def refit(model, x, y, seed, epochs):
    """Trains a compiled model from new weights, without compiling anew."""
    model.set_weights(build(x.shape[1], seed).get_weights())
    for variable in model.optimizer.variables:
        if "learning_rate" not in variable.path:
            variable.assign(np.zeros(variable.shape, variable.dtype))
    model.adapt(y)
    model.fit(x, y, epochs=epochs, batch_size=len(y) // BATCHES, verbose=0)


def mapie_intervals(law, y, calibration):
    """Intervals of MAPIE for all rows of a distribution, by method."""
    numpy = keras.ops.convert_to_numpy
    tail = (1 - COVERAGE) / 2
    mean, scale = numpy(law.prediction)[:, 0], numpy(law.scale)[:, 0]
    low, high = (numpy(law.quantile(p))[:, 0] for p in (tail, 1 - tail))
    rows = np.arange(len(mean))[:, None]
    given = [Given(v.astype("float64")) for v in (low, high, mean, scale)]
    normalised = ResidualNormalisedScore(given[3], prefit=True)
    split_conformal = mapie_regression.SplitConformalRegressor
    methods = {
        "MAPIE absolute": split_conformal(given[2], COVERAGE),
        "MAPIE normalised": split_conformal(given[2], COVERAGE, normalised),
        "MAPIE quantiles": mapie_regression.ConformalizedQuantileRegressor(
            given[:3], COVERAGE, prefit=True
        ),
    }
    found = {}
    for name, method in methods.items():
        method.conformalize(rows[:calibration], y[:calibration])
        # Of its two corrections by quantiles the narrower one.
        more = {"symmetric_correction": True} if "quantiles" in name else {}
        _, ends = method.predict_interval(rows, **more)
        found[name] = ends[:, 0, 0], ends[:, 1, 0]
    return found


def regressions(path, splits, epochs):
    """Coverage and mean width of every method, a list over the splits."""
    x, y = load(path)
    model = build(x.shape[1], 0)
    found, sizes = {}, None
    for seed in range(splits):
        train, held, test = split(x, y, seed)
        refit(model, *train, seed, epochs)
        inputs = np.concatenate([held[0], test[0]])
        target = np.concatenate([held[1], test[1]])
        n = len(held[1])
        law = model.predict_distribution(inputs, verbose=0)
        intervals = mapie_intervals(law, target, n)
        names = [p.name for p in law.parameters]
        values = {k: keras.ops.convert_to_numpy(getattr(law, k)) for k in names}
        prediction = keras.ops.convert_to_numpy(law.prediction)
        first = type(law)(
            prediction[:n], **{k: v[:n] for k, v in values.items()}
        )
        for name, trust in OURS.items():
            fitted = ConformalIntervals(trust=trust)
            fitted.fit_distribution(first, target[:n])
            lower, upper = fitted.calibrate(law).interval(COVERAGE)
            intervals[name] = lower[:, 0], upper[:, 0]
        for name, (lower, upper) in intervals.items():
            inside = (lower <= target) & (target <= upper)
            found.setdefault(name, []).append(
                (float(inside[n:].mean()), float((upper - lower)[n:].mean()))
            )
        sizes = n, len(target) - n
    return found, sizes


def band(calibration, test, splits, level=0.99):
    """Exact range of the mean coverage over independent splits."""
    rank = int(np.ceil((calibration + 1) * COVERAGE - 1e-9))
    one = stats.betabinom(test, rank, calibration + 1 - rank)
    law = np.array([1.0])
    for _ in range(splits):
        law = np.convolve(law, one.pmf(np.arange(test + 1)))
    below = np.cumsum(law)
    ends = np.searchsorted(below, [(1 - level) / 2, (1 + level) / 2])
    return (ends / (splits * test)).tolist()


def classifications(path, seed=None):
    """Coverage and mean size of the sets of every method."""
    with np.load(path) as file:
        logits = np.concatenate([file["logits_val"], file["logits_test"]])
        y = np.concatenate([file["y_val"], file["y_test"]])
        count = len(file["y_val"])
    if seed is not None:
        order = np.random.default_rng(seed).permutation(len(y))
        logits, y = logits[order], y[order]
    val, test = logits[:count], logits[count:]
    y_val, y_test = y[:count], y[count:]
    half = count // 2
    scaling = GlobalScaling().fit_arrays(val[:half], y_val[:half])
    p_val, p_test = scaling.calibrate(val[half:]), scaling.calibrate(test)
    y_val = y_val[half:]
    sets = {}
    for score in ("aps", "raps", "lac"):
        fitted = Conformal(score=score)
        fitted.fit_arrays(p_val, y_val, from_logits=False)
        sets[f"ours {score}"] = fitted.predict_set_arrays(
            p_test, COVERAGE, from_logits=False
        )
        rows = np.arange(len(p_val) + len(p_test))[:, None]
        peer = classification.SplitConformalClassifier(
            GivenClasses(np.concatenate([p_val, p_test])),
            COVERAGE,
            score,
            random_state=0,
        )
        peer.conformalize(rows[: len(p_val)], y_val)
        _, found = peer.predict_set(rows[len(p_val) :])
        sets[f"MAPIE {score}"] = found[:, :, 0]
    columns = np.arange(len(y_test))
    results = {
        name: (float(s[columns, y_test].mean()), float(s.sum(axis=1).mean()))
        for name, s in sets.items()
    }
    return results, (len(y_val), len(y_test))


def show_regressions(name, found, sizes):
    low, high = band(*sizes, len(found["ours"]))
    unit = np.mean([width for _, width in found["MAPIE absolute"]])
    print(f"{name:18s} n={sizes[0]:5d} band {low:.3f}..{high:.3f}", end="")
    for method, values in found.items():
        coverage, width = np.mean(values, axis=0)
        mark = " " if low <= coverage <= high else "!"
        print(f"  {method} {coverage:.3f}{mark} {width / unit:.3f}", end="")
    print(flush=True)
    return {"sizes": sizes, "band": [low, high], "methods": found}


def show_classes(path, splits):
    as_given, sizes = classifications(path)
    runs = [classifications(path, seed)[0] for seed in range(splits)]
    found = {name: [run[name] for run in runs] for name in as_given}
    low, high = band(*sizes, splits)
    print(f"{path.stem:22s} n={sizes[0]:5d} band {low:.3f}..{high:.3f}", end="")
    for method, values in found.items():
        coverage, size = np.mean(values, axis=0)
        once = as_given[method][0]
        print(f"  {method} {coverage:.3f} ({once:.3f}) {size:.2f}", end="")
    print(flush=True)
    return {
        "sizes": sizes,
        "band": [low, high],
        "band_as_given": band(*sizes, 1),
        "methods": found,
        "as_given": as_given,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--output", default="docs/results/conformal.json")
    parser.add_argument("--sets", nargs="*", help="renew these alone")
    arguments = parser.parse_args()
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"])
    output = pathlib.Path(arguments.output)
    results = {"regression": {}, "classification": {}}
    if arguments.sets and output.exists():
        results = json.loads(output.read_text())
    for path in sorted((folder / "logits").glob("*.npz")):
        if arguments.sets and path.stem not in arguments.sets:
            continue
        results["classification"][path.stem] = show_classes(
            path, arguments.splits
        )
    for path in sorted((folder / "regression").glob("*.npz")):
        if arguments.sets and path.stem not in arguments.sets:
            continue
        found = regressions(path, arguments.splits, arguments.epochs)
        results["regression"][path.stem] = show_regressions(path.stem, *found)
    output.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
