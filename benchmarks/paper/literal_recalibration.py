"""Regressors recalibrated by GS, LS and DS as the paper describes them.

    KERAS_BACKEND=jax python benchmarks/paper/literal_recalibration.py
    python benchmarks/paper/literal_recalibration.py --runs RUNS.jsonl

A network with two hidden layers of 10 ReLU units and one scale for all rows is
trained on 60 % of a set, recalibrated on 20 % and judged on 20 %. GS learns one
scale again, LS a linear map and DS a network with one hidden layer of 10 units
from the last hidden layer to a scale. All are trained by the paper's recipe
(`literal.py`), the seeds side by side. Seconds are processor time of a fit of
all seeds, compilation included.
"""

import time

import keras
import numpy as np
from datasets import REGRESSION, regression
from literal import POSITIVE, STEPS, UNITS, Dense, train
from runs import Runs, study_options
from scipy import stats

import keras_likelihood as kl
from keras_likelihood.recalibration.regression import Isotonic

MOST_ROWS = 5000
METHODS = ("Uncalibrated", "Isotonic", "GS", "LS", "DS")


def hidden(x):
    return Dense(UNITS, relu=True)(x)


def scale_of(method, features):
    """A scale for all rows (GS), or one from features (LS, DS)."""
    features = hidden(features) if method == "DS" else features
    return POSITIVE(Dense(1, constant=method == "GS")(features))


def fit_base(x, y, steps):
    """A function from inputs to prediction, scale and features."""
    inputs = keras.Input(batch_shape=(len(x), None, x.shape[-1]))
    features = hidden(hidden(inputs))
    outputs = Dense(1)(features), scale_of("GS", features)
    train(inputs, outputs, x, y, steps=steps)
    return as_arrays(keras.Model(inputs, [*outputs, features]))


def fit_scale(method, prediction, features, y, steps):
    """A function from features to scales, and the seconds of its fit."""
    begin = time.process_time()
    shapes = [(len(v), None, v.shape[-1]) for v in (prediction, features)]
    inputs = [keras.Input(batch_shape=shape) for shape in shapes]
    scale = scale_of(method, inputs[1])
    outputs = inputs[0], scale
    train(inputs, outputs, (prediction, features), y, steps=steps)
    took = time.process_time() - begin
    return as_arrays(keras.Model(inputs[1], scale)), took


def as_arrays(model):
    return lambda x: keras.tree.map_structure(
        keras.ops.convert_to_numpy, model(x)
    )


def study(name, seeds, steps):
    """`scores`, CAL and NLL by method and seed, and `fit_seconds`."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    splits = [regression(name, seed=s, rows=MOST_ROWS) for s in range(seeds)]
    (x, y), (x_test, y_test) = (
        [np.stack([split[part][i] for split in splits]) for i in (0, 1)]
        for part in (0, 1)
    )
    cut = round(0.75 * x.shape[1])
    base = fit_base(x[:, :cut], y[:, :cut], steps)
    val, scale_val, f_val = base(x[:, cut:])
    test, scale_test, f_test = base(x_test)
    y_val = y[:, cut:]
    scales, seconds = {"Uncalibrated": scale_test}, {}
    for method in ("GS", "LS", "DS"):
        scale, seconds[method] = fit_scale(method, val, f_val, y_val, steps)
        scales[method] = scale(f_test)
    found = {
        name: list(map(judge, test, scale, y_test))
        for name, scale in scales.items()
    }
    found["Isotonic"] = [
        isotonic(*arrays)
        for arrays in zip(
            val, scale_val, y_val, test, scale_test, y_test, strict=True
        )
    ]
    return {"scores": found, "fit_seconds": seconds}


def judge(prediction, scale, y):
    law = stats.norm(prediction.astype("float64"), scale)
    cal = kl.metrics.functions.calibration_error(law.cdf(y).ravel())
    return [cal, float(-np.mean(law.logpdf(y)))]


def isotonic(val, scale_val, y_val, test, scale_test, y_test):
    """CAL of the isotonic map of Kuleshov and others; it has no density."""
    fitted = Isotonic().fit_arrays(
        val[:, 0], y_val[:, 0], scale=scale_val[:, 0]
    )
    law = fitted.calibrate(test[:, 0], scale=scale_test[:, 0])
    values = np.asarray(law.cdf(y_test[:, 0]))
    return [kl.metrics.functions.calibration_error(values), None]


def main():
    options, steps, seeds, sets = study_options(
        __doc__, STEPS, REGRESSION, "cpu"
    )
    runs = Runs(options.runs)
    kept = runs.of_sets(sets, study, seeds, steps, seeds=seeds)
    every = {key: run["scores"] for key, run in kept.items()}
    rows = {
        key: [np.mean([s[0] for s in found[m]]) for m in METHODS]
        for key, found in every.items()
    }
    data = {"sets": len(sets), "seeds": seeds, "each_seed": every}
    data["seconds"] = {key: run["fit_seconds"] for key, run in kept.items()}
    data["tables"] = {
        "cal": {
            "columns": list(METHODS),
            "rows": rows,
            "paper": "tab:reg-calibration",
            "only_ours": True,
            "digits": 4,
        }
    }
    runs.record("literal_recalibration", data, quick=options.quick)


if __name__ == "__main__":
    main()
