"""Regressors recalibrated by GS, LS and DS as in the paper (Table 5).

    KERAS_BACKEND=jax python benchmarks/paper/recalibrated_regressors.py

A network with two hidden layers of 10 ReLU units and one scale for all rows is
trained on 60 % of a set, recalibrated on 20 % and tested on 20 %. GS learns one
scale again, LS a linear map and DS a network with one hidden layer of 10 units
from the last hidden layer to a scale. All are trained by the paper's recipe
(`recipe.py`), the seeds side by side. `perfect` is the expected CAL of a
perfectly calibrated model with as many test rows.
"""

import keras
import numpy as np
from get_data import REGRESSION, regression
from recipe import POSITIVE, STEPS, UNITS, Dense, Repeated, train
from results import mean_and_error, parallel, parser, record
from scipy import stats
from sklearn.isotonic import IsotonicRegression

import keras_likelihood as kl

METHODS = ("Uncalibrated", "Isotonic", "GS", "LS", "DS")
LEVELS = 10


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
    train(inputs, outputs, Repeated(x, y, steps))
    return as_arrays(keras.Model(inputs, [*outputs, features]))


def fit_scale(method, prediction, features, y, steps):
    """A function from features to scales."""
    shapes = [(len(v), None, v.shape[-1]) for v in (prediction, features)]
    inputs = [keras.Input(batch_shape=shape) for shape in shapes]
    scale = scale_of(method, inputs[1])
    rows = Repeated((prediction, features), y, steps)
    train(inputs, (inputs[0], scale), rows)
    return as_arrays(keras.Model(inputs[1], scale))


def as_arrays(model):
    return lambda x: keras.tree.map_structure(
        keras.ops.convert_to_numpy, model(x)
    )


def study(name, seeds, steps):
    """CAL and NLL by method and seed."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    splits = [regression(name, seed=s) for s in range(seeds)]
    (x, y), (x_test, y_test) = (
        [np.stack([split[part][i] for split in splits]) for i in (0, 1)]
        for part in (0, 1)
    )
    cut = round(0.75 * x.shape[1])
    base = fit_base(x[:, :cut], y[:, :cut], steps)
    val, scale_val, f_val = base(x[:, cut:])
    test, scale_test, f_test = base(x_test)
    y_val = y[:, cut:]
    scales = {"Uncalibrated": scale_test}
    for method in ("GS", "LS", "DS"):
        scale = fit_scale(method, val, f_val, y_val, steps)
        scales[method] = scale(f_test)
    found = {
        name: list(map(measures, test, scale, y_test))
        for name, scale in scales.items()
    }
    arrays = val, scale_val, y_val, test, scale_test, y_test
    found["Isotonic"] = list(map(isotonic, *arrays))
    return {"scores": found, "rows": len(y_test[0])}


def cal(values):
    return kl.metrics.functions.calibration_error(values, levels=LEVELS)


def measures(prediction, scale, y):
    normal = stats.norm(prediction.astype("float64"), scale)
    nll = float(-np.mean(normal.logpdf(y)))
    return [cal(normal.cdf(y).ravel()), nll]


def isotonic(val, scale_val, y_val, test, scale_test, y_test):
    """CAL of the isotonic map of Kuleshov and others; it has no density."""
    before = np.sort(stats.norm(val, scale_val).cdf(y_val).ravel())
    share = np.arange(1, len(before) + 1) / len(before)
    fitted = IsotonicRegression(out_of_bounds="clip").fit(before, share)
    return [
        cal(fitted.predict(stats.norm(test, scale_test).cdf(y_test).ravel())),
        None,
    ]


def main():
    options = parser(__doc__).parse_args()
    sets, seeds, steps = list(REGRESSION), 5, STEPS
    if options.quick:
        sets, seeds, steps = ["cpu"], 1, 10
    tasks = [(REGRESSION[key], seeds, steps) for key in sets]
    every = dict(zip(sets, parallel(study, tasks), strict=True))
    values = {
        key: np.array([[s[0] for s in found["scores"][m]] for m in METHODS]).T
        for key, found in every.items()
    }
    levels = np.arange(1, LEVELS) / LEVELS
    table = {"columns": [*METHODS, "perfect"], **mean_and_error(values)}
    for key, row in table["rows"].items():
        row.append(np.sum(levels * (1 - levels)) / every[key]["rows"])
        if "errors" in table:
            table["errors"][key].append(None)
    data = {"seeds": seeds, "each_seed": every, "tables": {"cal": table}}
    record("recalibrated_regressors", data, quick=options.quick)


if __name__ == "__main__":
    main()
