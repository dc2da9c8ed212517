"""Temperatures find the bad images of CIFAR-10.

    KERAS_BACKEND=jax python examples/paper/temperatures_cifar10.py

As `temperatures.py`, with a convolutional network on half of CIFAR-10's
training images. Meant for a GPU.
"""

import keras
import numpy as np
from datasets import cifar10
from keras import layers
from results import Mosaic, parser, record
from temperatures import KINDS, SHARE, compare, train

SHOWN = 12


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


def main():
    options = parser(__doc__)
    options.add_argument("--images", type=int, default=25_000)
    options.add_argument("--epochs", type=int, default=15)
    options.add_argument("--seeds", type=int, default=1)
    options = options.parse_args()
    kinds = KINDS
    if options.quick:
        options.images, options.epochs, kinds = 40, 1, KINDS[:1]
    (x, y), _ = cifar10()
    x = x[: options.images].astype("float32") / 255
    y = y[: options.images].reshape(-1).astype("int32")
    training = {"features": convolutions, "epochs": options.epochs}
    training["batch"] = 256
    table = compare(x, y, kinds, options.seeds, **training)
    keras.utils.set_random_seed(0)
    heat = train(x, y, "predicted", **training)
    order = np.argsort(heat)
    figure = Mosaic([x[order[:SHOWN]], x[order[::-1][:SHOWN]]])
    data = {
        "images": options.images,
        "epochs": options.epochs,
        "seeds": options.seeds,
        "share": SHARE,
        "heat": np.quantile(heat, [0.01, 0.5, 0.99]).tolist(),
        "tables": {"aupr": table},
    }
    record(
        "temperatures_cifar10", data, {"extremes": figure}, quick=options.quick
    )


if __name__ == "__main__":
    main()
