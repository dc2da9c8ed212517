"""Compares conformal intervals with MAPIE.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... python benchmarks/conformal.py

needs `pip install mapie`. On each regression set a network of 50 hidden units
with a normal head is fitted to 60 % of the rows (at most 3,000), calibrated on
20 % (at most 1,000) and evaluated on the rest (at most 2,000), on ten random
splits; both packages get the same network.
"""

import json
import os
import pathlib

import keras
import numpy as np
from mapie import regression as mapie_regression
from mapie.conformity_scores import ResidualNormalisedScore
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin

import keras_likelihood as kl
from keras_likelihood.conformal import ConformalIntervals

COVERAGE = 0.9
BATCHES, EPOCHS, SPLITS = 10, 40, 10
OUTPUT = pathlib.Path(__file__).parents[1] / "docs/results/conformal.json"
OURS = {"ours": "auto", "ours, trust 1": 1.0}


class Predicted(RegressorMixin, BaseEstimator):
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


def split(path, seed):
    """Training, calibration and test rows; inputs scaled by the first."""
    with np.load(path) as file:
        x, y = file["X"].astype("float64"), file["y"].astype("float32")
    order = np.random.default_rng(seed).permutation(len(y))
    # Whole batches only: a smaller last batch would be compiled again.
    train = min(int(0.6 * len(y)), 3000) // BATCHES * BATCHES
    end = train + min(int(0.2 * len(y)), 1000)
    rows = np.split(order[: end + 2000], [train, end])
    mean, deviation = np.nanmean(x[rows[0]], 0), np.nanstd(x[rows[0]], 0)
    x = np.where(np.isnan(x), mean, x) - mean
    x = np.clip(x / np.where(deviation > 0, deviation, 1), -10, 10)
    return [(x[r].astype("float32"), y[r]) for r in rows]


def fit(x, y, seed):
    """A network with a normal head."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    inputs = keras.Input(x.shape[1:])
    features = keras.layers.Dense(50, activation="relu")(inputs)
    head = kl.layers.ScaleHead(1, constraint="shifted_softplus")
    model = kl.LikelihoodModel(inputs, head(features))
    model.adapt(y)
    model.compile(keras.optimizers.Adam(0.01), loss=kl.losses.NormalLoss())
    model.fit(x, y, epochs=EPOCHS, batch_size=len(y) // BATCHES, verbose=0)
    return model


def mapie_intervals(predicted, y, calibration):
    """Intervals of MAPIE for all rows of a distribution, by method."""
    numpy = keras.ops.convert_to_numpy
    tail = (1 - COVERAGE) / 2
    mean, scale = (
        numpy(predicted.prediction)[:, 0],
        numpy(predicted.scale)[:, 0],
    )
    low, high = (numpy(predicted.quantile(p))[:, 0] for p in (tail, 1 - tail))
    rows = np.arange(len(mean))[:, None]
    peers = [Predicted(v.astype("float64")) for v in (low, high, mean, scale)]
    normalised = ResidualNormalisedScore(peers[3], prefit=True)
    split_conformal = mapie_regression.SplitConformalRegressor
    methods = {
        "MAPIE absolute": split_conformal(peers[2], COVERAGE),
        "MAPIE normalised": split_conformal(peers[2], COVERAGE, normalised),
        "MAPIE quantiles": mapie_regression.ConformalizedQuantileRegressor(
            peers[:3], COVERAGE, prefit=True
        ),
    }
    for name, method in methods.items():
        method.conformalize(rows[:calibration], y[:calibration])
        # Of its two corrections by quantiles the narrower one.
        more = {"symmetric_correction": True} if "quantiles" in name else {}
        _, ends = method.predict_interval(rows, **more)
        yield name, (ends[:, 0, 0], ends[:, 1, 0])


def regressions(path):
    """Coverage and mean width of every method, a list over the splits."""
    results = {}
    for seed in range(SPLITS):
        train, calibration, test = split(path, seed)
        model, n = fit(*train, seed), len(calibration[1])
        x, y = (np.concatenate(v) for v in zip(calibration, test, strict=True))
        predicted = model.predict_distribution(x, verbose=0)
        intervals = dict(mapie_intervals(predicted, y, n))
        first = model.predict_distribution(calibration[0], verbose=0)
        for name, trust in OURS.items():
            conformal = ConformalIntervals(trust=trust)
            conformal.fit_distribution(first, calibration[1])
            ends = conformal.calibrate(predicted).interval(COVERAGE)
            intervals[name] = [end[:, 0] for end in ends]
        for name, (lower, upper) in intervals.items():
            inside = (lower <= y) & (y <= upper)
            pair = float(inside[n:].mean()), float((upper - lower)[n:].mean())
            results.setdefault(name, []).append(pair)
    return results, (n, len(y) - n)


def band(calibration, test, splits, level=0.99):
    """Exact range of the mean coverage over independent splits."""
    rank = int(np.ceil((calibration + 1) * COVERAGE - 1e-9))
    one = stats.betabinom(test, rank, calibration + 1 - rank)
    pmf = np.array([1.0])
    for _ in range(splits):
        pmf = np.convolve(pmf, one.pmf(np.arange(test + 1)))
    below = np.cumsum(pmf)
    ends = np.searchsorted(below, [(1 - level) / 2, (1 + level) / 2])
    return (ends / (splits * test)).tolist()


def show(name, methods, sizes):
    """Prints mean coverages, marked if outside the band, and sizes."""
    low, high = band(*sizes, SPLITS)
    print(f"{name:22s} n={sizes[0]:5d} band {low:.3f}..{high:.3f}", end="")
    for method, values in methods.items():
        coverage, size = np.mean(values, axis=0)
        mark = " " if low <= coverage <= high else "!"
        print(f"  {method} {coverage:.3f}{mark} {size:.3f}", end="")
    print(flush=True)
    return {"sizes": sizes, "band": [low, high], "methods": methods}


def main():
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"], "regression")
    results = {
        path.stem: show(path.stem, *regressions(path))
        for path in sorted(folder.glob("*.npz"))
    }
    OUTPUT.write_text(json.dumps({"regression": results}) + "\n")


if __name__ == "__main__":
    main()
