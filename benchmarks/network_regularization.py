"""Learned strengths against a grid of L2 strengths, on small networks.

    KERAS_BACKEND=jax python benchmarks/network_regularization.py \
        --data cifar10.npz --seeds 3 --json images.jsonl

The file has arrays `x`, `y` of at least 5,000 training images of 32 x 32 pixels
in three colours and `xt`, `yt` of test images. The first 5,000 images are used,
of which the last 500 are held out for `HeldOut`; every method trains with the
same 4,500. Each network trains for 40 epochs of Adam at 1e-3 with batches of
128, with each of eight L2 strengths, with the default of AdamW and with
`DRidge` and `HeldOut`. Runs that are already in the file are skipped.

The networks of `DEVELOPMENT` (`--networks GRU CNN`) were used for choices, with
a file of other images.
"""

import argparse
import functools
import json
import pathlib
import time

import keras
import numpy as np
from keras import layers, ops

import keras_likelihood as kl
from keras_likelihood import regularizers

GRID = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
ROWS, HELD_OUT = 5000, 500


def convolution(x, width, make, size=3, stride=1):
    """Convolution and batch normalisation."""
    x = layers.Conv2D(
        width,
        size,
        stride,
        "same",
        use_bias=False,
        kernel_initializer="he_normal",
        kernel_regularizer=make(),
    )(x)
    return layers.BatchNormalization(momentum=0.9)(x)


def resnet(x, make):
    """ResNet-20."""
    x = ops.relu(convolution(x, 16, make))
    for stage, width in enumerate((16, 32, 64)):
        for block in range(3):
            stride = 2 if stage and not block else 1
            y = ops.relu(convolution(x, width, make, stride=stride))
            y = convolution(y, width, make)
            if stride == 2:
                x = convolution(x, width, make, 1, 2)
            x = ops.relu(x + y)
    return layers.GlobalAveragePooling2D()(x)


def vgg(x, make):
    """Six convolutions without normalisation."""
    for width in (32, 64, 128):
        for _ in range(2):
            x = layers.Conv2D(
                width,
                3,
                padding="same",
                activation="relu",
                kernel_initializer="he_normal",
                kernel_regularizer=make(),
            )(x)
        x = layers.MaxPooling2D()(x)
    return dense(layers.Flatten()(x), 128, make, "relu")


def dense(x, units, make, activation=None):
    return layers.Dense(units, activation, kernel_regularizer=make())(x)


def patches(x, width, make, size=4):
    x = layers.Conv2D(width, size, size, kernel_regularizer=make())(x)
    return layers.Reshape(((32 // size) ** 2, width))(x)


def perceptron(x, widths, make):
    return dense(dense(x, widths[0], make, "gelu"), widths[1], make)


@keras.saving.register_keras_serializable("benchmarks")
class Positions(layers.Layer):
    """Adds a learned vector to each position."""

    def build(self, shape):
        start = keras.initializers.RandomNormal(stddev=0.02)
        self.vectors = self.add_weight(shape=shape[1:], initializer=start)

    def call(self, x):
        return x + self.vectors


def transformer(x, make, width=96, blocks=4, heads=4, size=4):
    x = Positions()(patches(x, width, make, size))
    for _ in range(blocks):
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(
            heads, width // heads, kernel_regularizer=make()
        )
        x = x + attention(y, y)
        y = layers.LayerNormalization()(x)
        x = x + perceptron(y, (2 * width, width), make)
    return layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))


def mixer(x, make, width=96):
    x = patches(x, width, make)
    for _ in range(4):
        y = layers.Permute((2, 1))(layers.LayerNormalization()(x))
        y = perceptron(y, (64, 64), make)
        x = x + layers.Permute((2, 1))(y)
        y = layers.LayerNormalization()(x)
        x = x + perceptron(y, (2 * width, width), make)
    return layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))


def lstm(x, make):
    """Two layers over the rows of an image."""
    x = layers.Reshape((32, 96))(x)
    for returns in (True, False):
        x = layers.LSTM(
            128,
            return_sequences=returns,
            kernel_regularizer=make(),
            recurrent_regularizer=make(),
        )(x)
    return x


def gru(x, make):
    """One layer over the rows of an image."""
    x = layers.Reshape((32, 96))(x)
    return layers.GRU(
        96, kernel_regularizer=make(), recurrent_regularizer=make()
    )(x)


def bidirectional(x, make):
    """Two LSTM layers over the rows of an image, one from each end."""
    x = layers.Reshape((32, 96))(x)
    ends = [
        layers.LSTM(
            64,
            go_backwards=is_last,
            kernel_regularizer=make(),
            recurrent_regularizer=make(),
        )(x)
        for is_last in (False, True)
    ]
    return layers.Concatenate()(ends)


def cnn(x, make):
    """Three convolutions with strides."""
    for width in (24, 48, 96):
        x = layers.Conv2D(
            width,
            3,
            2,
            "same",
            activation="relu",
            kernel_initializer="he_normal",
            kernel_regularizer=make(),
        )(x)
    return dense(layers.Flatten()(x), 96, make, "relu")


def mlp(x, make):
    x = layers.Flatten()(layers.AveragePooling2D(2)(x))
    return dense(dense(x, 256, make, "relu"), 128, make, "relu")


NETWORKS = {
    "VGG without normalisation": vgg,
    "ResNet-20": resnet,
    "vision transformer": transformer,
    "MLP-mixer": mixer,
    "LSTM": lstm,
}
DEVELOPMENT = {
    "GRU": gru,
    "bidirectional LSTM": bidirectional,
    "CNN": cnn,
    "MLP": mlp,
    "small transformer": functools.partial(
        transformer, width=48, blocks=2, heads=3, size=8
    ),
}
METHODS = (*(f"{strength:g}" for strength in GRID), "AdamW", "HeldOut")


def load(path):
    """Standardised images and labels: training, test."""
    with np.load(path) as archive:
        x, y, xt, yt = (archive[name] for name in ("x", "y", "xt", "yt"))
    x, y = x[:ROWS], y[:ROWS].astype("int32")
    mean, spread = x.mean((0, 1, 2)), x.std((0, 1, 2))
    x, xt = (((a - mean) / spread).astype("float32") for a in (x, xt))
    return x, y, xt, yt.astype("int32")


def classifier(network, make, optimizer):
    """A compiled model; `make` makes the regularizer of each weight."""
    inputs = keras.Input((32, 32, 3))
    features = (NETWORKS | DEVELOPMENT)[network](inputs, make)
    model = kl.LikelihoodModel(inputs, dense(features, 10, make))
    model.compile(optimizer, loss=kl.losses.SoftmaxLoss(temperature=1.0))
    return model


def run(network, method, seed, data, epochs):
    """Test NLL, accuracy and seconds of one training."""
    x, y, xt, yt = data
    count = len(x) - HELD_OUT
    keras.utils.set_random_seed(seed)

    def make():
        if method == "HeldOut":
            return regularizers.DRidge(num_examples=count)
        fixed = method != "AdamW" and float(method) > 0
        return keras.regularizers.L2(float(method)) if fixed else None

    kind = "AdamW" if method == "AdamW" else "Adam"
    optimizer = getattr(keras.optimizers, kind)(1e-3)
    model = classifier(network, make, optimizer)
    callbacks = []
    if method == "HeldOut":
        held_out = x[count:], y[count:]
        callbacks = [regularizers.LearnScales(held_out=held_out)]
    begun = time.perf_counter()
    model.fit(
        x[:count],
        y[:count],
        batch_size=128,
        epochs=epochs,
        callbacks=callbacks,
        verbose=0,
    )
    seconds = time.perf_counter() - begun
    found = model.predict_distribution(xt, batch_size=1000, verbose=0)
    right = found.prediction.argmax(-1) == yt
    return {
        "network": network,
        "method": method,
        "seed": seed,
        "nll": round(float(found.nll(yt).mean()), 4),
        "accuracy": round(float(right.mean()), 4),
        "seconds": round(seconds, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--networks", nargs="+", default=[*NETWORKS])
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    data, done = load(arguments.data), set()
    if arguments.json.exists():
        for line in arguments.json.read_text().splitlines():
            found = json.loads(line)
            done.add((found["network"], found["method"], found["seed"]))
    for seed in range(arguments.seeds):
        for network in arguments.networks:
            for method in arguments.methods:
                if (network, method, seed) in done:
                    continue
                line = run(network, method, seed, data, arguments.epochs)
                with arguments.json.open("a") as file:
                    print(json.dumps(line), file=file)
                print(line, flush=True)
                keras.backend.clear_session()


if __name__ == "__main__":
    main()
