"""CAL and NLL of recalibrated regressors on eight regression sets.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/regression_recalibration.py

A network of 10 hidden units is fitted to 60 % of each set, recalibrated on 20 %
and evaluated on the last 20 %. The script prints medians over seeds.
"""

import argparse
import os
import pathlib

import keras
import numpy as np
from scipy import stats
from sklearn.isotonic import IsotonicRegression
from sklearn.neural_network import MLPRegressor

from keras_likelihood.metrics.functions import calibration_error
from keras_likelihood.recalibration import regression

SETS = "crime_norm kin8nm bank8FM wine_red autompg cpu_machine soil fried"
OURS = {
    "GS": regression.GlobalRescaling,
    "LS": regression.LinearRescaling,
    "DS": regression.DeepRescaling,
}


def load(folder, name, seed, rows=12000):
    """Standardised, imputed and split into train, calibration and test."""
    with np.load(pathlib.Path(folder) / "regression" / f"{name}.npz") as file:
        x, y = file["X"].astype(float), file["y"].astype(float)
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    first, second = int(0.6 * len(order)), int(0.8 * len(order))
    parts = order[:first], order[first:second], order[second:]
    # Only the rows of training say how to impute and to standardise.
    known = parts[0]
    x = np.where(np.isnan(x), np.nanmean(x[known], axis=0), x)
    deviation = x[known].std(axis=0)
    x = (x - x[known].mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    y = (y - y[known].mean()) / y[known].std()
    return [(x[part], y[part]) for part in parts]


def train(x, y, seed):
    """Fits a network of 10 hidden units to the squared error."""
    network = MLPRegressor(
        (10,),
        "tanh",
        solver="lbfgs",
        alpha=1e-4 * len(y),
        max_iter=300,
        random_state=seed,
    )
    return network.fit(x, y).predict


def evaluate(folder, name, seed):
    """CAL and NLL of every method, by name."""
    (x, y), (x_val, y_val), (x_test, y_test) = load(folder, name, seed)
    predict = train(x, y, seed)
    spread = np.std(y - predict(x))
    val, test = predict(x_val), predict(x_test)
    scales = np.full(len(val), spread), np.full(len(test), spread)
    z = (y_test - test) / spread
    results = {
        "Uncalibrated": (
            calibration_error(stats.norm.cdf(z)),
            np.mean(-stats.norm.logpdf(z)) + np.log(spread),
        )
    }
    # The recalibration of Kuleshov and others (2018) maps the predicted cdf.
    cdf = stats.norm.cdf((y_val - val) / spread)
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    curve.fit(cdf, stats.rankdata(cdf, "max") / len(cdf))
    mapped = curve.predict(stats.norm.cdf(z))
    results["Isotonic"] = calibration_error(mapped), np.nan
    for short, method in OURS.items():
        fitted = method().fit_arrays(
            val, y_val, scale=scales[0], features=np.c_[x_val, val]
        )
        law = fitted.calibrate(
            test, scale=scales[1], features=np.c_[x_test, test]
        )
        law = as_scipy(law)
        cal = calibration_error(law.cdf(y_test))
        results[short] = cal, -np.mean(law.logpdf(y_test))
    return results


def as_scipy(law):
    """The same distribution from SciPy, whose cdf is the fastest."""
    location = keras.ops.convert_to_numpy(law.prediction)
    scale = keras.ops.convert_to_numpy(law.scale)
    if law.name() == "normal":
        return stats.norm(location, scale)
    return stats.t(float(law.df), location, scale)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=SETS.split())
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    folder = os.environ["KERAS_LIKELIHOOD_DATA"]
    wins = 0
    print("median CAL / NLL over", arguments.seeds, "seeds")
    for name in arguments.sets:
        runs = [evaluate(folder, name, s) for s in range(arguments.seeds)]
        median = {
            k: np.median([run[k] for run in runs], axis=0) for k in runs[0]
        }
        best = min(median[k][0] for k in OURS)
        wins += best < median["Isotonic"][0]
        cells = (f"{k} {c:.4f} / {n:.2f}" for k, (c, n) in median.items())
        print(f"{name:12}", "   ".join(cells), flush=True)
    print(f"best of GS, LS, DS below isotonic: {wins}/{len(arguments.sets)}")


if __name__ == "__main__":
    main()
