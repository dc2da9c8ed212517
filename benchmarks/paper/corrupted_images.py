"""Finds corrupted images of CIFAR-10 by their temperatures (Figure 8).

    KERAS_BACKEND=jax python benchmarks/paper/corrupted_images.py

A tenth of half of CIFAR-10's training images is corrupted: by another label, by
noise, or by another image laid over them. A convolutional network is trained on
all of them with a temperature predicted from its features, with a temperature
for each image, or with neither; the temperatures (for the plain network, the
loss of the image) rank the images. `data, TensorFlow 1` follows the RMSProp of
TensorFlow 1.15, whose mean square starts at one. The figure has the clean
images of the lowest and the highest temperature (Figure 5, which the paper has
for SVHN). Meant for a GPU.

    KERAS_BACKEND=jax python benchmarks/paper/corrupted_images.py --digits

does the same with scikit-learn's digits and one hidden layer, on a CPU.
"""

import keras
import numpy as np
from get_data import cifar
from keras import layers
from results import Mosaic, mean_and_error, parallel, parser, record
from sklearn.datasets import load_digits

import keras_likelihood as kl

SHARE, SHOWN, RATE = 0.1, 12, 0.05
KINDS = ("wrong label", "noise", "two images")
METHODS = ("predicted", "data", "data, TensorFlow 1", "loss, no temperature")
TITLES = ("lowest\ntemperature", "highest\ntemperature")


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


def features(inputs):
    """Features of an image: of its pixels in a row, or of a square."""
    h = inputs
    if len(inputs.shape) == 2:
        return layers.Dense(64, activation="relu")(h)
    for filters in (64, 128, 256):
        for _ in range(2):
            h = layers.Conv2D(filters, 3, padding="same", use_bias=False)(h)
            h = layers.BatchNormalization()(h)
            h = layers.Activation("relu")(h)
        h = layers.MaxPooling2D()(h)
    return layers.GlobalAveragePooling2D()(h)


def train(x, y, method, epochs):
    """Trains a network; returns the score of every training example."""
    inputs = keras.Input(x.shape[1:])
    hidden = features(inputs)
    outputs, target, temperature = layers.Dense(10)(hidden), y, 1.0
    if method == "predicted":
        outputs = kl.layers.TemperatureHead(10, dimension="scalar")(hidden)
        temperature = None
    elif method.startswith("data"):
        options = {}
        if "TensorFlow" in method:
            options = {"epsilon": 1e-10, "initial_mean_square": 1.0}
        optimizer = kl.data_parameters.SparseRMSProp(RATE, **options)
        temperature = kl.DataParameter(len(x), optimizer=optimizer)
        target = kl.indexed(y)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(1e-3), loss=kl.losses.SoftmaxLoss(temperature)
    )
    learned = method.startswith("data")
    callbacks = [temperature] if learned else []
    model.fit(
        x,
        target,
        batch_size=256 if x.ndim == 4 else 64,
        epochs=epochs,
        verbose=0,
        callbacks=callbacks,
    )
    if learned:
        return np.ravel(temperature.values())
    outputs = model.predict(x, batch_size=1000, verbose=0)
    if method == "predicted":
        return np.ravel(outputs[1])
    softmax = kl.likelihoods.Softmax(outputs, temperature=1.0)
    return np.ravel(keras.ops.convert_to_numpy(softmax.nll(y)))


def average_precision(bad, score):
    """Area under the precision-recall curve; equal scores are one step."""
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(bad[order])
    last = np.append(np.diff(score[order]) != 0, True)
    hits, ranked = hits[last], 1 + np.flatnonzero(last)
    return float(np.sum(np.diff(hits, prepend=0) * hits / ranked) / hits[-1])


def read(count):
    """Images and labels; digits for `None`."""
    if count is None:
        x, y = load_digits(return_X_y=True)
        return (x / 16).astype("float32"), y.astype("int32")
    (x, y), _ = cifar()
    x, y = x[:count], y[:count]
    return x.astype("float32") / 255, y.reshape(-1).astype("int32")


def study(kind, seed, images, epochs):
    """Area under the precision-recall curve of every method."""
    keras.utils.set_random_seed(seed)
    x, y, bad = corrupt(*read(images), kind, seed)
    scores = [train(x, y, method, epochs) for method in METHODS]
    return [average_precision(bad, score) for score in scores]


def extremes(images, epochs):
    """Clean images of the lowest and the highest temperature."""
    keras.utils.set_random_seed(0)
    order = np.argsort(train(*read(images), "predicted", epochs))
    return [order[:SHOWN].tolist(), order[::-1][:SHOWN].tolist()]


def main():
    options = parser(__doc__)
    options.add_argument("--digits", action="store_true")
    options = options.parse_args()
    kinds, images, epochs, seeds = KINDS, 25_000, 15, 5
    if options.digits:
        images, epochs = None, 20
    if options.quick:
        kinds, images, epochs, seeds = KINDS[:1], 40, 1, 1
    keys = [(kind, seed) for kind in kinds for seed in range(seeds)]
    tasks = [(*key, images, epochs) for key in keys]
    every = dict(zip(keys, parallel(study, tasks), strict=True))
    values = {k: [every[k, seed] for seed in range(seeds)] for k in kinds}
    data = {"images": images, "epochs": epochs, "seeds": seeds}
    data["each_seed"] = values
    table = {"columns": list(METHODS), **mean_and_error(values)}
    data["tables"] = {"aupr": table}
    if options.digits:
        record("corrupted_digits", data, quick=options.quick)
        return
    x, _ = read(images)
    rows = [x[chosen] for chosen in extremes(images, epochs)]
    figures = {"extremes": Mosaic(rows, TITLES)}
    record("corrupted_images", data, figures, quick=options.quick)


if __name__ == "__main__":
    main()
