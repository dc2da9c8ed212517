"""Cost of likelihood parameters in a training step.

    python benchmarks/step_time.py --model decoder (or autoencoder, small)

`decoder` is a convolutional decoder with 64x64x3 targets, whose parameters are
fixed numbers, or learned: global or predicted, one per image or one per
element. `autoencoder` has dense layers and 32x32x3 targets: its scale is 1, or
a data parameter in memory or in a file, or a stock `Embedding` with RMSprop,
which updates all rows in each step. `--rows` are the sizes of the tables. On
JAX all devices share a batch. `small` is a dense network for 16 numbers,
whose whole `fit` is timed for one long epoch and for many short ones, against
`keras.Model`. On JAX it counts the programs that the first `fit` compiles.

Every installed backend runs in its own process. The variants alternate in
`fit`, round after round, on new random rows, so a busy machine slows down all
of them equally. Times are those of the fastest rounds, without the first two
steps, relative to the first variant. `twin` is the first variant once more: its
difference from 1 is the noise.
"""

import argparse
import importlib.util
import itertools
import os
import subprocess
import sys
import tempfile
import time

import keras
import numpy as np
from keras import layers

import keras_likelihood as kl

IMAGE = (32, 32, 3)
NAMES = {"Normal": "normal", "RobustRho": "robust_rho"}


def decoder_model(likelihood, kind, dimension):
    """A compiled decoder with fixed, global or predicted parameters."""
    inputs = keras.Input((64,))
    maps = layers.Dense(8 * 8 * 64, activation="relu")(inputs)
    maps = layers.Reshape((8, 8, 64))(maps)
    options = {"padding": "same", "activation": "relu"}
    for filters in (64, 32, 32):
        maps = layers.UpSampling2D()(maps)
        maps = layers.Conv2D(filters, 3, **options)(maps)
    loss = getattr(kl.losses, f"{likelihood}Loss")
    if kind == "fixed":
        shape = {"shape": 1.5} if likelihood == "RobustRho" else {}
        loss, outputs = loss(scale=0.5, **shape), layers.Dense(3)(maps)
    elif kind == "global":
        loss, outputs = loss(dimension=dimension), layers.Dense(3)(maps)
    else:
        head = kl.layers.LikelihoodHead(
            NAMES[likelihood], 3, dimension=dimension
        )
        loss, outputs = loss(), head(maps)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=loss)
    return model


def decoders(likelihood, folder, sizes):
    """Models by name, and functions that make their data."""

    def data(rng, rows):
        x = rng.standard_normal((rows, 64), "float32")
        return x, rng.standard_normal((rows, 64, 64, 3), "float32")

    learned = ("global", "predicted"), ("scalar", "element")
    kinds = [("fixed", ""), ("twin", ""), *itertools.product(*learned)]
    for kind, dimension in kinds:
        model = decoder_model(
            likelihood, kind.replace("twin", "fixed"), dimension
        )
        yield f"{kind} {dimension}", model, data


def autoencoders(likelihood, folder, sizes):
    yield "without", autoencoder(), images
    yield "twin", autoencoder(), images
    for count in sizes:
        scale = kl.DataParameter(count, dimension="scalar")
        yield f"{count:,} rows", autoencoder(scale), indexed(count)
    scale = kl.DataParameter(100_000, dimension="element")
    yield "element, 100,000 rows", autoencoder(scale), indexed(100_000)
    if has_several_devices():
        return
    count = sizes[-1]
    table = kl.data_parameters.FileTable(os.path.join(folder, "scale.npy"))
    scale = kl.DataParameter(count, dimension="scalar", table=table)
    yield f"in a file, {count:,} rows", autoencoder(scale), indexed(count)
    yield f"Embedding, {count:,} rows", embedding(count), numbered(count)


def has_several_devices():
    is_jax = keras.backend.backend() == "jax"
    return is_jax and len(keras.distribution.list_devices()) > 1


def network(inputs):
    """Three dense layers through a code of 512."""
    h = layers.Flatten()(inputs)
    for _ in range(2):
        h = layers.Dense(512, activation="relu")(h)
    return layers.Reshape(IMAGE)(layers.Dense(int(np.prod(IMAGE)))(h))


def autoencoder(scale=1.0):
    inputs = keras.Input(IMAGE)
    model = kl.LikelihoodModel(inputs, network(inputs))
    model.compile("adam", loss=kl.losses.NormalLoss(scale=scale))
    return model


def embedding(rows):
    inputs, index = keras.Input(IMAGE), keras.Input((), dtype="int32")
    scale = keras.ops.softplus(layers.Embedding(rows, 1)(index))
    outputs = network(inputs), layers.Reshape((1, 1, 1))(scale)
    model = kl.LikelihoodModel((inputs, index), outputs)
    model.compile("rmsprop", loss=kl.losses.NormalLoss())
    return model


def images(rng, count):
    x = rng.random((count, *IMAGE), dtype="float32")
    return x, x


def indexed(rows):
    def data(rng, count):
        x, y = images(rng, count)
        return x, kl.indexed(y, index=rng.integers(0, rows, count))

    return data


def numbered(rows):
    def data(rng, count):
        x, y = images(rng, count)
        return (x, rng.integers(0, rows, count).astype("int32")), y

    return data


class Clock(keras.callbacks.Callback):
    """Seconds per step of an epoch, without the first two steps."""

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 2:
            self.start = time.perf_counter()
        self.last = batch

    def on_epoch_end(self, epoch, logs=None):
        float(logs["loss"])
        self.seconds = (time.perf_counter() - self.start) / (self.last - 1)


def measure(variants, options):
    """Prints the milliseconds of a step, and their ratio to the first."""
    rng, times = np.random.default_rng(0), {name: [] for name, *_ in variants}
    for turn in range(options.rounds + 1):
        drawn = {}
        for name, model, data in variants:
            clock = Clock()
            if data not in drawn:
                drawn = {data: data(rng, (options.steps + 2) * options.batch)}
            x, y = drawn[data]
            model.fit(x, y, options.batch, callbacks=[clock], verbose=0)
            if turn:  # The first one compiles.
                times[name].append(clock.seconds)
    best = {name: min(seconds) for name, seconds in times.items()}
    base = next(iter(best.values()))
    for name, seconds in best.items():
        print(f"{name:28}{1e3 * seconds:9.2f} ms {seconds / base:8.3f}x")


def measure_fits(options):
    """Prints the milliseconds per step of whole fits, and their ratio."""
    rng, models, programs = np.random.default_rng(0), {}, []
    if keras.backend.backend() == "jax":
        jax = importlib.import_module("jax")
        jax.monitoring.register_event_duration_secs_listener(
            lambda name, *_, **__: programs.append("backend_compile" in name)
        )
    for name, kind, loss in (
        ("keras.Model, mse", keras.Model, "mse"),
        ("twin", keras.Model, "mse"),
        ("LikelihoodModel, mse", kl.LikelihoodModel, "mse"),
        ("keras.Model, Normal", keras.Model, kl.losses.NormalLoss(scale=1.0)),
        ("LikelihoodModel, Normal", kl.LikelihoodModel, kl.losses.NormalLoss()),
    ):
        inputs = keras.Input((16,))
        hidden = layers.Dense(32, activation="relu")(inputs)
        models[name] = kind(inputs, layers.Dense(1)(hidden))
        models[name].compile("adam", loss=loss)
    for epochs, steps in (1, 1000), (100, 10):
        x = rng.normal(size=(options.batch * steps, 17)).astype("float32")
        x_y = x[:, :16], x[:, 16:]
        best = dict.fromkeys(models, np.inf)
        for turn in range(options.rounds + 1):
            for name, model in models.items():
                start = time.process_time()
                programs.clear()
                model.fit(*x_y, options.batch, epochs, verbose=0)
                used = time.process_time() - start
                best[name] = min(best[name], used if turn else np.inf)
                if turn == 0 and programs:
                    print(f"{name}: {sum(programs)} programs compiled")
        print(f"{epochs} epochs of {steps} steps")
        for name, seconds in best.items():
            ratio = seconds / best["keras.Model, mse"]
            print(f"{name:28}{seconds:9.3f} ms {ratio:8.3f}x")


def main():
    backends = "tensorflow", "jax", "torch"
    installed = [name for name in backends if importlib.util.find_spec(name)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="decoder")
    parser.add_argument("--backends", nargs="+", default=installed)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**4, 10**7])
    parser.add_argument("--here", action="store_true", help="no new process")
    options = parser.parse_args()
    if not options.here:
        for backend in options.backends:
            command = [sys.executable, *sys.argv, "--here"]
            environment = {**os.environ, "KERAS_BACKEND": backend}
            subprocess.run(command, env=environment, check=True)
        return None
    if options.model == "small":
        return measure_fits(options)
    is_decoder = options.model == "decoder"
    if has_several_devices():
        parallel = keras.distribution.DataParallel(auto_shard_dataset=False)
        keras.distribution.set_distribution(parallel)
    for likelihood in [*NAMES][: 1 + is_decoder]:
        print(f"\n{keras.backend.backend()}: {options.model}, {likelihood}")
        make = decoders if is_decoder else autoencoders
        with tempfile.TemporaryDirectory() as folder:
            measure(list(make(likelihood, folder, options.rows)), options)


if __name__ == "__main__":
    main()
