"""Finds corrupted images of CIFAR-10 by their temperatures (Figure 8).

    KERAS_BACKEND=jax python benchmarks/paper/corrupted_images.py

A tenth of half of CIFAR-10's training images is corrupted: by another label, by
noise, or by another image laid over them. A convolutional network is trained on
all of them with a temperature predicted from its features, with a temperature
for each image, or with neither; the temperatures (for the plain network, the
loss of the image) rank the images. `data, TensorFlow 1` follows the RMSProp of
TensorFlow 1.15, whose mean square starts at one. Meant for a GPU. `--digits`
does the same with scikit-learn's digits and one hidden layer, on a CPU.

    KERAS_BACKEND=jax python benchmarks/paper/corrupted_images.py --audit svhn

has the clean images of the lowest and the highest temperature (Figure 5), and
the rank correlation of the temperature with what the paper says of them; with
`cifar10` in place of `svhn` too.
"""

import keras
import numpy as np
from get_data import labelled_images
from keras import layers
from recipe import TENSORFLOW_1
from results import mean_and_error, parallel, parser, record
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score

import keras_likelihood as kl

SHARE, RATE = 0.1, 0.05
KINDS = ("wrong label", "noise", "two images")
METHODS = ("predicted", "data", "data, TensorFlow 1", "loss, no temperature")
LOOKS = ("blurry", "dark", "difficult")


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
        options = TENSORFLOW_1 if "TensorFlow" in method else {}
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


def read(name, count):
    """Images and labels."""
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        return (x / 16).astype("float32"), y.astype("int32")
    (x, y), _ = labelled_images(name)
    x, y = x[:count], y[:count]
    return x.astype("float32") / 255, y.reshape(-1).astype("int32")


def study(name, kind, seed, images, epochs):
    """Area under the precision-recall curve of every method."""
    keras.utils.set_random_seed(seed)
    x, y, bad = corrupt(*read(name, images), kind, seed)
    scores = [train(x, y, method, epochs) for method in METHODS]
    return [average_precision_score(bad, score) for score in scores]


def audit(name, seed, images, epochs):
    """Rank correlations of the temperature, and the figure of extremes."""
    keras.utils.set_random_seed(seed)
    x, y = read(name, images)
    temperature = train(x, y, "predicted", epochs)
    gray = x.mean(axis=-1)
    sharpness = np.abs(np.diff(gray)).mean(axis=(1, 2))
    loss = train(x, y, METHODS[-1], epochs)
    looks = (-sharpness, -gray.mean(axis=(1, 2)), loss)
    correlations = [spearmanr(temperature, look)[0] for look in looks]
    return correlations, kl.plots.plot_extremes(x, temperature)


def main():
    options = parser(__doc__)
    options.add_argument("--digits", action="store_true")
    options.add_argument("--audit", choices=("svhn", "cifar10"))
    options = options.parse_args()
    kinds, images, epochs, seeds = KINDS, 25_000, 15, 5
    name, result, figures = "cifar10", "corrupted_images", {}
    if options.digits:
        name, result = "digits", "corrupted_digits"
        images, epochs = None, 20
    if options.quick:
        kinds, images, epochs, seeds = KINDS[:1], 40, 1, 1
    data = {"images": images, "epochs": epochs, "seeds": seeds}
    if options.audit:
        name, result = options.audit, f"audit_{options.audit}"
        tasks = [(name, seed, images, epochs) for seed in range(seeds)]
        results = parallel(audit, tasks)
        figures["extremes"] = results[0][1]
        title, columns = "looks", list(LOOKS)
        values = {name: [correlations for correlations, _ in results]}
    else:
        keys = [(kind, seed) for kind in kinds for seed in range(seeds)]
        tasks = [(name, *key, images, epochs) for key in keys]
        every = dict(zip(keys, parallel(study, tasks), strict=True))
        title, columns = "aupr", list(METHODS)
        values = {k: [every[k, seed] for seed in range(seeds)] for k in kinds}
    data["each_seed"] = values
    data["tables"] = {title: {"columns": columns, **mean_and_error(values)}}
    record(result, data, figures, quick=options.quick)


if __name__ == "__main__":
    main()
