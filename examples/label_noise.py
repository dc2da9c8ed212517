"""Which labels are wrong? Ask the temperature of each training image.

Four labels in ten are wrong. A network trained with cross-entropy comes to
believe them; one whose every training image has a temperature of its own may
say instead that it is unsure about an image, and then lets its label pass.
After training, a high temperature points at a wrong label.

    python examples/label_noise.py
    KERAS_LIKELIHOOD_DATA=... python examples/label_noise.py --data cifar10n

The first uses the digits of scikit-learn with labels flipped at random. The
second uses CIFAR-10N, whose wrong labels are people's mistakes, from
`images/cifar10_jpeg90.npz` and `labels/cifar10n.npz` of that folder.

Printed for each seed and on average, for a plain network and one with data
temperatures of the same architecture and training length: the average
precision of ranking the training labels by the plain network's loss, and by
temperature; and the accuracy on clean test labels.
"""

import argparse
import io
import os

import keras
import numpy as np

import keras_likelihood as kl


def digits(noise, rng):
    """8x8 digits; a share `noise` of the labels moved to another class."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x.reshape(-1, 8, 8, 1) / 16).astype("float32")
    order = rng.permutation(len(x))
    train, test = order[:1400], order[1400:]
    given = y[train].copy()
    wrong = rng.random(len(train)) < noise
    given[wrong] = (given[wrong] + rng.integers(1, 10, wrong.sum())) % 10
    return x[train], given, wrong, x[test], y[test]


def cifar10n(examples, rng):
    """32x32 photographs with the worst of three people's labels."""
    folder = os.environ.get("KERAS_LIKELIHOOD_DATA")
    if not folder:
        raise SystemExit("Set KERAS_LIKELIHOOD_DATA to the folder of the data")
    images = np.load(os.path.join(folder, "images", "cifar10_jpeg90.npz"))
    labels = np.load(os.path.join(folder, "labels", "cifar10n.npz"))
    x = _unpack(images)
    count = len(images["y_train"])
    train = rng.permutation(count)[:examples]
    given, clean = labels["worse_label"][train], labels["clean_label"][train]
    wrong = given != clean
    return x[train], given, wrong, x[count:], images["y_test"]


def _unpack(archive):
    """JPEG mosaics to images `(count, 32, 32, 3)` in [0, 1]."""
    from PIL import Image

    rows, columns, height, width = (int(v) for v in archive["grid"])
    ends = np.cumsum(archive["lens"])
    count = len(archive["y_train"]) + len(archive["y_test"])
    x = np.empty((len(ends), rows, columns, height, width, 3), "float32")
    for i, mosaic in enumerate(np.split(archive["jpeg"], ends[:-1])):
        pixels = np.asarray(Image.open(io.BytesIO(mosaic.tobytes())))
        tiles = pixels.reshape(rows, height, columns, width, 3)
        x[i] = tiles.transpose(0, 2, 1, 3, 4) / 255
    return x.reshape(-1, height, width, 3)[:count]


def network(shape, width):
    """Two or three convolutions, as the image allows, and logits."""
    inputs = h = keras.Input(shape)
    for level in range(2 if shape[0] < 16 else 3):
        h = keras.layers.Conv2D(
            width * 2**level, 3, padding="same", activation="relu"
        )(h)
        h = keras.layers.MaxPooling2D()(h)
    h = keras.layers.Flatten()(h)
    h = keras.layers.Dense(8 * width, activation="relu")(h)
    return kl.LikelihoodModel(inputs, keras.layers.Dense(10)(h))


def train(x, y, temperature, args):
    """A network fitted to the labels `y`, right and wrong."""
    model = network(x.shape[1:], args.width)
    model.compile(
        keras.optimizers.Adam(1e-3),
        loss=kl.losses.SoftmaxLoss(temperature=temperature),
        metrics=["accuracy"],
    )
    data = isinstance(temperature, kl.DataParameter)
    model.fit(
        x,
        kl.indexed(y) if data else y,
        batch_size=64,
        epochs=args.epochs,
        callbacks=[temperature] if data else [],
        verbose=0,
    )
    return model


def losses(model, x, y):
    """Cross-entropy of every example."""
    logits = model.predict(x, batch_size=256, verbose=0)
    nll = kl.likelihoods.Softmax(logits).nll(y)
    return keras.ops.convert_to_numpy(nll)


def accuracy(model, x, y):
    logits = model.predict(x, batch_size=256, verbose=0)
    return float(np.mean(logits.argmax(axis=-1) == y))


def average_precision(score, wrong):
    """Mean precision over the places of the wrong labels in the ranking."""
    hits = wrong[np.argsort(-score, kind="stable")]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())


def compare(args, seed):
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    if args.data == "digits":
        x, y, wrong, x_test, y_test = digits(args.noise, rng)
    else:
        x, y, wrong, x_test, y_test = cifar10n(args.examples, rng)
    plain = train(x, y, 1.0, args)
    temperature = kl.DataParameter(len(x), learning_rate=args.learning_rate)
    tempered = train(x, y, temperature, args)
    return {
        "share of wrong labels": wrong.mean(),
        "AP, loss of the plain network": average_precision(
            losses(plain, x, y), wrong
        ),
        "AP, data temperature": average_precision(temperature.values(), wrong),
        "accuracy, plain": accuracy(plain, x_test, y_test),
        "accuracy, data temperatures": accuracy(tempered, x_test, y_test),
    }


def parse(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", choices=["digits", "cifar10n"], default="digits"
    )
    parser.add_argument("--noise", type=float, default=0.4)
    parser.add_argument("--examples", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=0.02)
    parser.add_argument("--seeds", type=int, default=3)
    return parser.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    results = []
    for seed in range(args.seeds):
        results.append(compare(args, seed))
        print(f"seed {seed}: " + _row(results[-1]), flush=True)
    mean = {k: np.mean([r[k] for r in results]) for k in results[0]}
    for name, value in mean.items():
        print(f"{name:32s} {value:.3f}")
    return mean


def _row(result):
    return "  ".join(f"{v:.3f}" for v in result.values())


if __name__ == "__main__":
    main()
