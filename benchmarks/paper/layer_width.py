"""Wider networks are less well calibrated.

    KERAS_BACKEND=jax python benchmarks/paper/layer_width.py

One hidden layer of growing width, with a predicted scale, on a small
synthetic set (Friedman's first function): calibration error on training and
on test data, and on test data after the scale was recalibrated by one factor
on a validation set.
"""

import keras
import numpy as np
from recipe import Repeated
from results import mean_and_error, parser, pyplot, record
from sklearn.datasets import make_friedman1

import keras_likelihood as kl

WIDTHS = (2, 4, 8, 16, 32, 64, 128, 256)


def make_study(seed, examples):
    x, y = make_friedman1(examples, n_features=10, noise=2.0, random_state=seed)
    x, y = (x - 0.5) / 0.29, (y - 14.4) / 5.3
    return x.astype("float32"), y.astype("float32")[:, None]


def train(x, y, widths, steps):
    """Networks of all widths as branches that share nothing."""
    inputs = keras.Input((x.shape[1],))
    outputs = {}
    for width in widths:
        hidden = keras.layers.Dense(width, activation="relu")(inputs)
        head = kl.layers.ScaleHead(1, constraint="shifted_softplus")
        outputs[f"width{width}"] = head(hidden)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(3e-3),
        loss={key: kl.losses.NormalLoss() for key in outputs},
    )
    model.fit(Repeated(x, dict.fromkeys(outputs, y), steps), verbose=0)
    return model


def normal_of(output):
    """The predicted distribution."""
    return kl.likelihoods.Normal(output[0], scale=output[1])


def numbers(tensor):
    return keras.ops.convert_to_numpy(tensor)


def cal(normal, y):
    values = np.clip(numbers(normal.cdf(y)), 0, 1)
    return kl.metrics.functions.calibration_error(values)


def coverage(normal, y):
    """Share of targets in the central interval that promises 90 %."""
    values = np.clip(numbers(normal.cdf(y)), 0, 1)
    return kl.metrics.functions.interval_coverage(values, 0.9)


def recalibrated(output, y, test_output, y_test):
    """CAL on test data after one factor was fitted on validation data."""
    (val, scale), (test, test_scale) = (
        [numbers(part)[:, 0] for part in pair] for pair in (output, test_output)
    )
    fitted = kl.recalibration.regression.GlobalRescaling().fit_arrays(
        val, y[:, 0], scale=scale
    )
    normal = fitted.calibrate(test, scale=test_scale)
    target = y_test.reshape(normal.prediction.shape)
    return cal(normal, target)


def study(seed, widths, steps):
    """CAL on training, test and recalibrated test data, by width."""
    keras.utils.set_random_seed(seed)
    x, y = make_study(seed, 200)
    x_val, y_val = make_study(1000 + seed, 200)
    x_test, y_test = make_study(2000 + seed, 2000)
    model = train(x, y, widths, steps)
    fitted, val, test = model(x), model(x_val), model(x_test)
    return [
        [
            cal(normal_of(fitted[key]), y),
            cal(normal_of(test[key]), y_test),
            recalibrated(val[key], y_val, test[key], y_test),
            coverage(normal_of(fitted[key]), y),
            coverage(normal_of(test[key]), y_test),
        ]
        for key in test
    ]


COLUMNS = ["CAL, training", "CAL, test", "CAL, test, recalibrated"]


def draw(widths, found):
    """Mean calibration errors over the width."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 4))
    axis.plot(widths, found[:, :3], "o-", label=COLUMNS)
    axis.set(xscale="log", xlabel="hidden units", ylabel="calibration error")
    axis.set_xticks(widths, [str(width) for width in widths])
    axis.legend()
    return figure


def main():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options = options.parse_args()
    widths, steps = WIDTHS, 1500
    if options.quick:
        widths, steps, options.seeds = (2, 8), 10, 1
    every = np.array(
        [study(seed, widths, steps) for seed in range(options.seeds)]
    )
    by_width = {f"{width} units": every[:, i] for i, width in enumerate(widths)}
    found = every.mean(axis=0)
    data = {
        "seeds": options.seeds,
        "coverage": {"training": found[-1, 3], "test": found[-1, 4]},
        "growth": found[-1, 1] / found[:, 1].min(),
        "cured": found[-1, 1] / found[-1, 2],
        "tables": {
            "cal": {
                "columns": [*COLUMNS, "90 % interval holds, training", "test"],
                **mean_and_error(by_width),
                "digits": 3,
            }
        },
        "each_seed": by_width,
    }
    figure = draw(widths, found)
    record("layer_width", data, {"cal": figure}, quick=options.quick)


if __name__ == "__main__":
    main()
