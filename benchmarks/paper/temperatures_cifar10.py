"""Finds corrupted images of CIFAR-10 by their temperatures.

    KERAS_BACKEND=jax python benchmarks/paper/temperatures_cifar10.py

As `temperatures.py`, with a convolutional network on half of CIFAR-10's
training images. Meant for a GPU.

    python benchmarks/paper/temperatures_cifar10.py --runs RUNS.jsonl --only 3

With `--runs`, every run is a line of that file and is not done again, so
several processes, each with `--only` a few seeds, may fill it side by side.
The call without `--only` then writes the results.
"""

import pathlib

import keras
import numpy as np
from datasets import cifar10
from keras import layers
from results import Mosaic, parser, record
from runs import Runs
from temperatures import KINDS, SHARE, measure, table_of, train

SHOWN = 12
TITLES = ("lowest\ntemperature", "highest\ntemperature")


def convolutions(inputs):
    """Features of an image, `(batch, 256)`."""
    h = inputs
    for filters in (64, 128, 256):
        for _ in range(2):
            h = layers.Conv2D(filters, 3, padding="same", use_bias=False)(h)
            h = layers.BatchNormalization()(h)
            h = layers.Activation("relu")(h)
        h = layers.MaxPooling2D()(h)
    return layers.GlobalAveragePooling2D()(h)


def parse():
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=25_000)
    options.add_argument("--epochs", type=int, default=15)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--runs", type=pathlib.Path)
    options.add_argument("--only", nargs="+", type=int, default=[])
    options = options.parse_args()
    options.kinds = KINDS
    if options.quick:
        options.images, options.epochs, options.seeds = 40, 1, 1
        options.kinds = KINDS[:1]
    return options


def run_all(runs, x, y, options):
    """Trains what is missing: by seed and kind, and on clean images."""
    training = {"features": convolutions, "epochs": options.epochs}
    training["batch"] = 256
    for seed in options.only or range(options.seeds):
        for kind in options.kinds:
            if not runs.find(seed=seed, kind=kind):
                found = measure(x, y, kind, seed, **training)
                runs.add(seed=seed, kind=kind, aupr=found)
        if seed == 0 and not runs.find(shown=True):
            keras.utils.set_random_seed(0)
            heat = train(x, y, "predicted", **training)
            order = np.argsort(heat)
            runs.add(
                shown=True,
                heat=np.quantile(heat, [0.01, 0.5, 0.99]).tolist(),
                lowest=order[:SHOWN].tolist(),
                highest=order[::-1][:SHOWN].tolist(),
            )


def main():
    options = parse()
    (x, y), _ = cifar10()
    x = x[: options.images].astype("float32") / 255
    y = y[: options.images].reshape(-1).astype("int32")
    runs = Runs(options.runs)
    run_all(runs, x, y, options)
    if options.only:
        return
    found = {
        kind: [
            runs.find(seed=seed, kind=kind)["aupr"]
            for seed in range(options.seeds)
        ]
        for kind in options.kinds
    }
    shown = runs.find(shown=True)
    figure = Mosaic([x[shown["lowest"]], x[shown["highest"]]], TITLES)
    data = {
        "images": options.images,
        "epochs": options.epochs,
        "seeds": options.seeds,
        "share": SHARE,
        "heat": shown["heat"],
        "tables": {"aupr": table_of(found)},
        "each_seed": found,
    }
    record(
        "temperatures_cifar10",
        data,
        {"extremes": figure},
        quick=options.quick,
        circumstances=runs.circumstances(),
    )


if __name__ == "__main__":
    main()
