"""Wider networks are less well calibrated (Figure 12).

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

WIDTHS, SEEDS = (2, 4, 8, 16, 32, 64, 128, 256), 5
COLUMNS = ["CAL, training", "CAL, test", "CAL, test, recalibrated"]


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


def cal(normal, y):
    values = keras.ops.convert_to_numpy(normal.cdf(y))
    return kl.metrics.functions.calibration_error(np.clip(values, 0, 1))


def study(seed, widths, steps):
    """CAL on training, test and recalibrated test data, by width."""
    keras.utils.set_random_seed(seed)
    x, y = make_study(seed, 200)
    x_val, y_val = make_study(1000 + seed, 200)
    x_test, y_test = make_study(2000 + seed, 2000)
    model = train(x, y, widths, steps)
    rows = []
    for key in (outputs := model(x)):
        (mean, scale), (val, val_scale), (test, test_scale) = (
            [keras.ops.convert_to_numpy(v) for v in part[key]]
            for part in (outputs, model(x_val), model(x_test))
        )
        scaling = kl.recalibration.regression.GlobalRescaling().fit_arrays(
            val[:, 0], y_val[:, 0], scale=val_scale[:, 0]
        )
        better = scaling.calibrate(test[:, 0], scale=test_scale[:, 0])
        rows.append(
            [
                cal(kl.likelihoods.Normal(mean, scale=scale), y),
                cal(kl.likelihoods.Normal(test, scale=test_scale), y_test),
                cal(better, y_test.reshape(better.prediction.shape)),
            ]
        )
    return rows


def draw(widths, means):
    """Mean calibration errors over the width."""
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(6, 4))
    axis.plot(widths, means, "o-", label=COLUMNS)
    axis.set(xscale="log", xlabel="hidden units", ylabel="calibration error")
    axis.set_xticks(widths, [str(width) for width in widths])
    axis.legend()
    return figure


def main():
    options = parser(__doc__).parse_args()
    widths, seeds, steps = WIDTHS, SEEDS, 1500
    if options.quick:
        widths, seeds, steps = (2, 8), 1, 10
    every = np.array([study(seed, widths, steps) for seed in range(seeds)])
    by_width = {f"{width} units": every[:, i] for i, width in enumerate(widths)}
    table = {"columns": COLUMNS, **mean_and_error(by_width)}
    data = {"seeds": seeds, "tables": {"cal": table}, "each_seed": by_width}
    figure = draw(widths, every.mean(axis=0))
    record("layer_width", data, {"cal": figure}, quick=options.quick)


if __name__ == "__main__":
    main()
