"""Regressors whose scale is 1 and with a predicted one (Tables 2 and 6).

    KERAS_BACKEND=jax python benchmarks/paper/regressors.py

Both are trained by the paper's recipe (`recipe.py`), with gradients clipped at
norm 1 and the seeds side by side. `base` is squared error: a normal likelihood
of scale 1. `predicted` has a scale from the last layer's features. As in the
paper, the NLL lacks the constant (log 2 pi) / 2, and CAL has ten levels. `gap`
is the mean gap between a level and the share of targets below its predicted
quantile: the paper's column "MSE" looks like this gap. `one scale` is a
learned scale for all rows.
"""

import keras
import numpy as np
from get_data import REGRESSION, regression
from recipe import POSITIVE, STEPS, UNITS, Dense, Repeated, train
from results import mean_and_error, parallel, parser, record
from scipy import stats

import keras_likelihood as kl

MOST_ROWS = 5000
MODELS = ("base", "one scale", "predicted")
MEASURES = ("CAL", "gap", "MSE", "NLL")
LEVELS = np.arange(1, 10) / 10
CONSTANT = np.log(2 * np.pi) / 2


def branch(inputs, model, deep):
    """Prediction and scale."""
    features = Dense(UNITS, relu=True)(inputs) if deep else inputs
    prediction = Dense(1)(features)
    if model == "base":
        return prediction, keras.ops.ones_like(prediction)
    return prediction, POSITIVE(
        Dense(1, constant=model == "one scale")(features)
    )


def measures(prediction, scale, y):
    """CAL, mean gap, squared error and NLL on test rows."""
    normal = stats.norm(prediction.astype("float64"), scale)
    values = normal.cdf(y)
    gaps = [abs(np.mean(values <= level) - level) for level in LEVELS]
    return [
        kl.metrics.functions.calibration_error(values.ravel(), levels=10),
        float(np.mean(gaps)),
        float(np.mean((prediction - y) ** 2)),
        float(-np.mean(normal.logpdf(y)) - CONSTANT),
    ]


def study(name, deep, seeds, steps):
    """The measures of the models, a list over the seeds."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    splits = [regression(name, seed=s, rows=MOST_ROWS) for s in range(seeds)]
    (x, y), (x_test, y_test) = (
        [np.stack([split[part][i] for split in splits]) for i in (0, 1)]
        for part in (0, 1)
    )
    inputs = keras.Input(batch_shape=(seeds, None, x.shape[-1]))
    outputs = {name: branch(inputs, name, deep) for name in MODELS}
    rows = Repeated(x, dict.fromkeys(MODELS, y), steps)
    model = train(inputs, outputs, rows, clipnorm=1.0)
    result = {}
    for name, pair in model(x_test).items():
        arrays = [keras.ops.convert_to_numpy(part) for part in pair]
        result[name] = list(map(measures, *arrays, y_test))
    return result


def main():
    options = parser(__doc__).parse_args()
    sets, seeds, steps = list(REGRESSION), 5, STEPS
    if options.quick:
        sets, seeds, steps = ["soil"], 1, 10
    data = {"seeds": seeds, "steps": steps, "each_seed": {}, "tables": {}}
    for depth in ("deep", "linear"):
        tasks = [(REGRESSION[n], depth == "deep", seeds, steps) for n in sets]
        every = dict(zip(sets, parallel(study, tasks), strict=True))
        data["each_seed"][depth] = every
        for place, measure in enumerate(MEASURES):
            values = {
                key: np.array([models[m] for m in MODELS])[:, :, place].T
                for key, models in every.items()
            }
            data["tables"][f"{depth}_{measure}"] = {
                "columns": list(MODELS),
                **mean_and_error(values),
            }
    record("regressors", data, quick=options.quick)


if __name__ == "__main__":
    main()
