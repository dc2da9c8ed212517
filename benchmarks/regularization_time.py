"""Time of a training with learned strengths, relative to a fixed L2 penalty.

    KERAS_BACKEND=jax python benchmarks/regularization_time.py --rounds 5

Each training is the first `fit` of a new model: tracing, compilation and 40
epochs with batches of 128. `MLP` has two layers of 64 units, a learned noise
and 6,500 rows of 8 inputs; the other networks are those of
`network_regularization.py` with 4,500 images. The data are random. `L2`,
`HeldOut` and `Evidence` alternate, round after round, in one process. The first
round warms up and does not count. The script prints the median seconds, and the
median ratio to `L2` within a round with its smallest and largest value.
"""

import argparse
import gc
import time

import keras
import network_regularization
import numpy as np

import keras_likelihood as kl
from keras_likelihood import regularizers

METHODS = ("L2", "HeldOut", "Evidence")
BATCH, HELD_OUT = 128, 500


def perceptron(make):
    inputs = h = keras.Input((8,))
    for _ in range(2):
        h = keras.layers.Dense(64, "relu", kernel_regularizer=make())(h)
    output = keras.layers.Dense(1, kernel_regularizer=make())(h)
    model = kl.LikelihoodModel(inputs, output)
    model.compile("adam", loss=kl.losses.NormalLoss())
    return model


def data(network):
    """Random inputs and targets, the last ones to be held out."""
    random = np.random.default_rng(0)
    if network == "MLP":
        x = random.normal(size=(7000, 8)).astype("float32")
        y = np.sin(x[:, :1]) + 0.1 * random.normal(size=(7000, 1))
        return x, y.astype("float32")
    x = random.normal(size=(5000, 32, 32, 3)).astype("float32")
    return x, random.integers(0, 10, 5000).astype("int32")


def seconds(network, method, x, y, epochs):
    """Time of the first `fit` of a new model."""
    count = len(x) - HELD_OUT
    keras.utils.set_random_seed(0)

    def make():
        if method == "L2":
            return keras.regularizers.L2(1e-4)
        return regularizers.DRidge(num_examples=count)

    if network == "MLP":
        model = perceptron(make)
    else:
        model = network_regularization.classifier(network, make, "adam")
    callbacks = []
    if method == "HeldOut":
        held_out = x[count:], y[count:]
        callbacks = [regularizers.LearnScales(held_out=held_out)]
    begun = time.perf_counter()
    model.fit(
        x[:count],
        y[:count],
        batch_size=BATCH,
        epochs=epochs,
        callbacks=callbacks,
        verbose=0,
    )
    return time.perf_counter() - begun


def main():
    known = ["MLP", *network_regularization.NETWORKS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=known[:1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=40)
    arguments = parser.parse_args()
    for network in arguments.networks:
        x, y = data(network)
        rounds = []
        for _ in range(arguments.rounds + 1):
            found = {}
            for method in METHODS:
                found[method] = seconds(network, method, x, y, arguments.epochs)
                keras.backend.clear_session()
                gc.collect()
            rounds.append(found)
        for method in METHODS:
            taken = [found[method] for found in rounds[1:]]
            ratios = [found[method] / found["L2"] for found in rounds[1:]]
            print(
                f"{network}, {method}: {np.median(taken):.1f} s, "
                f"{np.median(ratios):.2f} times L2 "
                f"({min(ratios):.2f} to {max(ratios):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
