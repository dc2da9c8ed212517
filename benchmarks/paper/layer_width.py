"""Wider networks are less well calibrated (Figure 12).

    KERAS_BACKEND=jax python benchmarks/paper/layer_width.py

One hidden layer of growing width, with a predicted scale, on a small
synthetic set (Friedman's first function): calibration error on training and
on test data.
"""

import keras
import numpy as np
from recipe import Repeated
from results import mean_and_error, parser, pyplot, record
from sklearn.datasets import make_friedman1

import keras_likelihood as kl

WIDTHS, SEEDS = (2, 4, 8, 16, 32, 64, 128, 256), 5
COLUMNS = ["CAL, training", "CAL, test"]


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


def cal(output, y):
    mean, scale = output
    values = kl.likelihoods.Normal(mean, scale=scale).cdf(y)
    values = np.clip(keras.ops.convert_to_numpy(values), 0, 1)
    return kl.metrics.functions.calibration_error(values)


def study(seed, widths, steps):
    """CAL on training and test data, by width."""
    keras.utils.set_random_seed(seed)
    x, y = make_study(seed, 200)
    x_test, y_test = make_study(2000 + seed, 2000)
    model = train(x, y, widths, steps)
    pairs = [(model(x), y), (model(x_test), y_test)]
    return [[cal(part[key], z) for part, z in pairs] for key in pairs[0][0]]


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
