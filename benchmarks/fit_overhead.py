"""Cost of `fit` of a `LikelihoodModel`, relative to a stock model.

    KERAS_BACKEND=jax python benchmarks/fit_overhead.py steps
    KERAS_BACKEND=jax python benchmarks/fit_overhead.py steps --count --profile
    KERAS_BACKEND=jax python benchmarks/fit_overhead.py steps \\
        --kinds fixed data file
    KERAS_BACKEND=jax python benchmarks/fit_overhead.py first

`steps` times a step of `fit` with a data parameter, relative to the same model
without. A multilayer perceptron with small inputs keeps the device busy; an
autoencoder of 32x32x3 images has large ones. It is compared with a stock model
with squared error, and with a scale from a stock `Embedding`, which updates all
rows in each step. `file` has its table on disk. The variants alternate, round
after round, and the fastest round is reported. `--steps-per-execution` lets
Keras call its callbacks less often. `--count` counts the kernels of a compiled
step (JAX), and `--profile` lists where Python spends its time.

`first` times the first `fit` of new models, in which a step is traced and
compiled, and the second. A stock model with a hand-written version of the same
likelihood shows the compilation time of the arithmetic itself. The script
prints medians over the rounds.
"""

import argparse
import collections
import cProfile
import os
import pstats
import re
import tempfile
import time

import keras
import numpy as np

import keras_likelihood as kl

NOT_KERNELS = ("parameter", "tuple", "get-tuple-element", "bitcast", "constant")


def perceptron(width):
    inputs = keras.Input((64,))
    h = inputs
    for _ in range(4):
        h = keras.layers.Dense(width, activation="relu")(h)
    return inputs, h, 8


def autoencoder(width):
    inputs = keras.Input((3072,))
    h = keras.layers.Dense(width, activation="relu")(inputs)
    h = keras.layers.Dense(width, activation="relu")(h)
    return inputs, h, 3072


NETWORKS = {"perceptron": (perceptron, 64), "autoencoder": (autoencoder, 3072)}


def gaussian_nll(y, output):
    """The Normal likelihood as a user of stock Keras writes it."""
    mean, raw = keras.ops.split(output, 2, axis=-1)
    scale = keras.ops.softplus(raw)
    z = (y - mean) / scale
    return keras.ops.mean(0.5 * z**2 + keras.ops.log(scale))


def make(kind, network, width, rows, **options):
    """A compiled model of one of the kinds below."""
    keras.utils.set_random_seed(0)
    inputs, h, size = network(width)
    if kind == "by hand":
        model = keras.Model(inputs, keras.layers.Dense(2 * size)(h))
        model.compile("adam", loss=gaussian_nll, **options)
        return model
    if kind == "predicted":
        model = kl.LikelihoodModel(inputs, kl.layers.ScaleHead(size)(h))
        model.compile("adam", loss=kl.losses.NormalLoss(), **options)
        return model
    outputs = keras.layers.Dense(size)(h)
    if kind == "stock":
        model = keras.Model(inputs, outputs)
        model.compile("adam", loss="mse", **options)
        return model
    scale = {"fixed": 1.0, "twin": 1.0}.get(kind)
    if kind == "embedding":
        index = keras.Input((), dtype="int32")
        row = keras.ops.softplus(keras.layers.Embedding(rows, 1)(index))
        inputs, outputs = (inputs, index), (outputs, row)
    elif kind == "file":
        path = os.path.join(tempfile.mkdtemp(dir=FOLDER.name), "table.npy")
        table = kl.data_parameters.FileTable(path)
        scale = kl.DataParameter(rows, table=table)
    elif kind in ("data", "data element"):
        dimension = "scalar" if kind == "data" else "element"
        rows = rows if kind == "data" else min(rows, 20_000)
        scale = kl.DataParameter(rows, dimension=dimension)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.NormalLoss(scale=scale), **options)
    return model


STEPS = (
    "stock",
    "fixed",
    "twin",
    "data",
    "data element",
    "embedding",
    "file",
)
FOLDER = tempfile.TemporaryDirectory()
FIRST = ("stock", "by hand", "fixed", "global", "predicted", "data")


class Clock(keras.callbacks.Callback):
    """Seconds per step of an epoch, less its first two.

    `seconds` passed, and the processors computed for `computed`, which other
    work on the machine disturbs less.
    """

    def on_train_batch_begin(self, batch, logs=None):
        if self.start is None and batch >= 2:
            self.start, self.first = now(), batch

    def on_epoch_begin(self, epoch, logs=None):
        self.start = None

    def on_epoch_end(self, epoch, logs=None):
        float(logs["loss"])
        steps = self.params["steps"] - self.first
        self.seconds, self.computed = (now() - self.start) / steps


class Halves(keras.callbacks.Callback):
    """Seconds per step of both halves of an epoch, less the first two steps.

    `halves[i]` are the seconds that passed and those computed, as in `Clock`.
    """

    def on_train_batch_begin(self, batch, logs=None):
        if batch in (2, self.params["steps"] // 2):
            # Asking for the model waits for the steps before.
            float(self.model.metrics[0].result())
            self.marks.append((batch, now()))

    def on_epoch_begin(self, epoch, logs=None):
        self.marks = []

    def on_epoch_end(self, epoch, logs=None):
        float(logs["loss"])
        self.marks.append((self.params["steps"], now()))
        (a, start), (b, middle), (c, end) = self.marks
        self.halves = (middle - start) / (b - a), (end - middle) / (c - b)


def now():
    return np.array([time.perf_counter(), time.process_time()])


def arguments(kind, x, y, rows, rng):
    """What `fit` gets, with fresh random rows where there is a table."""
    if kind == "data element":
        rows = min(rows, 20_000)
    index = rng.integers(0, rows, len(x)).astype("int32")
    if kind == "embedding":
        return (x, index), y
    if kind.startswith(("data", "file")):
        return x, kl.indexed(y, index=index)
    return x, y


def measure_steps(args):
    rng = np.random.default_rng(0)
    for name in args.networks:
        network, features = NETWORKS[name]
        width = args.width or {"perceptron": 4096, "autoencoder": 512}[name]
        count = (args.steps + 2) * args.batch
        x = rng.random((count, features), dtype="float32")
        y = x[:, :8].copy() if name == "perceptron" else x
        models = {
            kind: make(
                kind,
                network,
                width,
                args.rows,
                steps_per_execution=args.steps_per_execution,
            )
            for kind in args.kinds
        }

        def fit(kind, callbacks=(), models=models, x=x, y=y):
            data = arguments(kind, x, y, args.rows, rng)
            models[kind].fit(
                *data,
                batch_size=args.batch,
                shuffle=False,
                verbose=0,
                callbacks=list(callbacks),
            )

        times = {kind: [] for kind in models}
        for round_ in range(args.rounds + 1):
            for kind in models:
                clock = Clock()
                fit(kind, [clock])
                if round_:
                    times[kind].append((clock.seconds, clock.computed))
        report_steps(name, width, times, args)
        if args.profile:
            kind = "data" if "data" in models else args.kinds[-1]
            profile(lambda kind=kind: fit(kind))
        if args.count:
            for kind, model in models.items():
                data = arguments(kind, x, y, args.rows, rng)
                one = keras.tree.map_structure(lambda a: a[: args.batch], data)
                print(f"  {kind:14} {kernels(model, one)}")


def report_steps(name, width, times, args):
    print(
        f"\n{keras.backend.backend()}, {name} of width {width}, batch "
        f"{args.batch}, {args.rows:,} rows, {args.steps_per_execution} "
        "step(s) per execution"
    )
    best = {k: 1e3 * np.min(rounds, axis=0) for k, rounds in times.items()}
    base = best.get("fixed", next(iter(best.values())))
    heads = ("ms passed", "ratio", "ms computed", "ratio")
    print(" " * 16 + "".join(f"{head:>12}" for head in heads))
    for kind, value in best.items():
        ratios = value / base
        columns = (value[0], ratios[0], value[1], ratios[1])
        print(f"  {kind:14}" + "".join(f"{v:12.3f}" for v in columns))


def kernels(model, data):
    """How many of which kernels the compiled step has."""
    import jax

    state = model._get_jax_state(
        trainable_variables=True,
        non_trainable_variables=True,
        optimizer_variables=True,
        metrics_variables=True,
    )
    text = jax.jit(model.train_step).lower(state, data).compile().as_text()
    entry = text[text.index("ENTRY") :]
    found = collections.Counter(re.findall(r"= \S+ ([a-z-]+)\(", entry))
    kept = {k: v for k, v in found.items() if k not in NOT_KERNELS}
    return f"{sum(kept.values())} kernels: {kept}"


def profile(function):
    recorder = cProfile.Profile()
    recorder.runcall(function)
    pstats.Stats(recorder).sort_stats("tottime").print_stats(25)


def measure_first(args):
    rng = np.random.default_rng(0)
    x = rng.random((64, 64), dtype="float32")
    y = x[:, :8].copy()
    times: dict = {kind: [] for kind in FIRST}
    for round_ in range(args.rounds + 1):
        for kind in FIRST:
            targets = kl.indexed(y) if kind == "data" else y
            model = make(kind, perceptron, 16, len(x))
            spent = []
            for _ in range(2):
                start = time.perf_counter(), time.process_time()
                model.fit(x, targets, batch_size=64, verbose=0)
                spent.append(time.perf_counter() - start[0])
                spent.append(time.process_time() - start[1])
            if round_:
                times[kind].append(spent)
    print(f"\n{keras.backend.backend()}: seconds of the first `fit`")
    medians = {kind: np.median(rows, axis=0) for kind, rows in times.items()}
    base = medians["stock"]
    heads = ("passed", "computed", "of stock", "second fit", "of stock")
    print(" " * 12 + "".join(f"{head:>12}" for head in heads))
    for kind, row in medians.items():
        values = (row[0], row[1], row[1] / base[1], row[3], row[3] / base[3])
        print(f"  {kind:10}" + "".join(f"{value:12.3f}" for value in values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("steps", "first"))
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--kinds", nargs="+", default=list(STEPS))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=None)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps-per-execution", type=int, default=1)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    measure_first(args) if args.what == "first" else measure_steps(args)


if __name__ == "__main__":
    main()
