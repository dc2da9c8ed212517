"""Finds corrupted examples by their temperatures.

    KERAS_BACKEND=jax python benchmarks/paper/temperatures.py

Handwritten digits, a tenth of which are corrupted: by another label, by
noise, or by another image laid over them. A small network is trained on all of
them with a temperature predicted from its features, with a temperature for
each example, or with neither; the temperatures (for the plain network, the
loss of the example) rank the examples.
"""

import keras
import numpy as np
from results import WIDTH, mean_and_error, parser, pyplot, record

import keras_likelihood as kl

SHARE = 0.1
KINDS = ("wrong label", "noise", "two images")
METHODS = {
    "predicted": "predicted temperature",
    "data": "data temperature",
    "plain": "loss of a plain network",
}


def corrupt(x, y, kind, seed):
    """Images, labels and which of them are corrupted."""
    rng = np.random.default_rng(seed)
    x, y = x.copy(), y.copy()
    bad = rng.permutation(len(x)) < round(SHARE * len(x))
    rows = np.flatnonzero(bad)
    if kind == "wrong label":
        y[rows] = (y[rows] + rng.integers(1, 10, len(rows))) % 10
    elif kind == "noise":
        x[rows] += 0.7 * rng.standard_normal((len(rows), *x.shape[1:]))
    else:
        x[rows] = np.maximum(x[rows], x[rng.permutation(len(x))[: len(rows)]])
    return x.astype("float32"), y, bad


def one_hidden_layer(inputs):
    return keras.layers.Dense(64, activation="relu")(inputs)


def train(x, y, kind, *, features, epochs, batch=64):
    """Trains a network; returns the score of every training example."""
    inputs = keras.Input(x.shape[1:])
    hidden = features(inputs)
    outputs, target, callbacks = keras.layers.Dense(10)(hidden), y, []
    temperature = None
    if kind == "predicted":
        outputs = kl.layers.TemperatureHead(10, dimension="scalar")(hidden)
    elif kind == "data":
        temperature = kl.DataParameter(len(x), learning_rate=0.05)
        target, callbacks = kl.indexed(y), [temperature]
    else:
        temperature = 1.0
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(1e-3), loss=kl.losses.SoftmaxLoss(temperature)
    )
    model.fit(
        x,
        target,
        batch_size=batch,
        epochs=epochs,
        verbose=0,
        callbacks=callbacks,
    )
    if kind == "data":
        return np.ravel(temperature.values())
    outputs = model.predict(x, batch_size=1000, verbose=0)
    if kind == "predicted":
        return np.ravel(outputs[1])
    law = kl.likelihoods.Softmax(outputs, temperature=1.0)
    return np.ravel(keras.ops.convert_to_numpy(law.nll(y)))


def average_precision(bad, score):
    """Area under the precision-recall curve; equal scores are one step."""
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(bad[order])
    last = np.append(np.diff(score[order]) != 0, True)
    hits, ranked = hits[last], 1 + np.flatnonzero(last)
    return float(np.sum(np.diff(hits, prepend=0) * hits / ranked) / hits[-1])


def measure(x, y, kind, seed, **options):
    """Area under the precision-recall curve of every method."""
    keras.utils.set_random_seed(seed)
    images, labels, bad = corrupt(x, y, kind, seed)
    scores = [train(images, labels, m, **options) for m in METHODS]
    return [average_precision(bad, score) for score in scores]


def table_of(found):
    """Means and standard errors of `{kind: [of every seed, measure(...)]}`."""
    return {
        "columns": list(METHODS.values()),
        **mean_and_error(found),
    }


def draw(images, names, heat, count=8):
    """The images of the lowest and of the highest temperature."""
    plt = pyplot()
    order = np.argsort(heat)
    figure, axes = plt.subplots(2, count, figsize=(WIDTH, 3))
    for row, chosen in zip(
        axes, (order[:count], order[::-1][:count]), strict=True
    ):
        for axis, i in zip(row, chosen, strict=True):
            axis.imshow(images[i], cmap="gray_r")
            axis.set_title(f"{names[i]}: {heat[i]:.2f}", fontsize=10)
            axis.set_axis_off()
    figure.suptitle("label: temperature, lowest above and highest below")
    return figure


def main():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options = options.parse_args()
    kinds, training = KINDS, {"features": one_hidden_layer, "epochs": 20}
    if options.quick:
        kinds, options.seeds, training["epochs"] = KINDS[:1], 1, 1
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x, y = (x / 16.0).astype("float32"), y.astype("int32")
    found = {
        kind: [
            measure(x, y, kind, seed, **training)
            for seed in range(options.seeds)
        ]
        for kind in kinds
    }
    keras.utils.set_random_seed(0)
    heat = train(x, y, "predicted", **training)
    figure = draw(x.reshape(-1, 8, 8), y, heat)
    data = {
        "seeds": options.seeds,
        "share": SHARE,
        "tables": {"aupr": table_of(found)},
        "each_seed": found,
    }
    record("temperatures", data, {"extremes": figure}, quick=options.quick)


if __name__ == "__main__":
    main()
