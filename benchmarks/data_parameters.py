"""Cost of a training step with and without data parameters.

    python benchmarks/data_parameters.py
    python benchmarks/data_parameters.py --quick --backends jax
    python benchmarks/data_parameters.py --backends jax --batch-size 512

A small autoencoder for 32x32x3 images is trained by `fit` with a normal
likelihood: with scale 1, with a scale per image, with a scale per pixel and
channel, and with both in a file. For comparison, it is trained with a scale per
image from a stock `Embedding` and RMSprop, which updates all rows in each step.
Every installed backend runs in its own process. All variants alternate, round
after round, on new random rows, and the fastest round of each is reported. The
script prints the ratio of the elapsed times and of the processor times. The
latter are less affected by other programs, but are meaningless on a GPU.

The model without data parameters is timed twice, as two variants. The
difference of their ratio from 1 is the noise of the measurement: if a ratio
differs from its limit by less than that, the result is called undecided.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

BACKENDS = ("tensorflow", "jax", "torch")
IMAGE = (32, 32, 3)
SCALAR_SIZES = (10_000, 1_000_000, 10_000_000)
ELEMENT_SIZES = (20_000, 100_000)
FILE_SIZES = (100_000, 10_000_000)
SCALAR_BAR = {"tensorflow": 1.10, "jax": 1.10, "torch": 1.25}
ELEMENT_BAR = 1.30
GROWTH_BAR = 1.10
FILE_BAR = 1.15


def autoencoder(inputs):
    """Three dense layers through a code of 512."""
    from keras import layers

    h = layers.Flatten()(inputs)
    h = layers.Dense(512, activation="relu")(h)
    h = layers.Dense(512, activation="relu")(h)
    return layers.Reshape(IMAGE)(layers.Dense(int(np.prod(IMAGE)))(h))


class Variant:
    """A compiled model and the data it trains on.

    Args:
        images: `(examples, 32, 32, 3)`, inputs and targets.
        batch_size: of `fit`.
        size: rows of the table, or `None` for a fixed scale.
        dimension: of the data parameter, or `"embedding"`.
        path: of the table's file, or `None`.
    """

    def __init__(self, images, batch_size, size, dimension, path=None):
        self.images = images
        self.batch_size = batch_size
        self.size = size
        self.dimension = dimension
        self.path = path
        self.model = self._compile()

    def _compile(self):
        import keras

        import keras_likelihood as kl

        inputs = keras.Input(IMAGE)
        outputs = autoencoder(inputs)
        scale = 1.0
        optimizer = keras.optimizers.Adam()
        if self.dimension == "embedding":
            index = keras.Input((), dtype="int32")
            rows = keras.layers.Embedding(self.size, 1)(index)
            rows = keras.layers.Reshape((1, 1, 1))(keras.ops.softplus(rows))
            inputs, outputs = (inputs, index), (outputs, rows)
            scale = None
            optimizer = keras.optimizers.RMSprop()
        elif self.size is not None:
            table = self.path and kl.data_parameters.FileTable(self.path)
            scale = kl.DataParameter(
                self.size, dimension=self.dimension, table=table
            )
        model = kl.LikelihoodModel(inputs, outputs)
        model.compile(optimizer, loss=kl.losses.NormalLoss(scale=scale))
        return model

    def step_time(self, rng):
        """Seconds per step in one epoch of `fit`: passed, and computed."""
        clock = _clock()
        images = self.images
        options = {
            "batch_size": self.batch_size,
            "shuffle": False,
            "verbose": 0,
            "callbacks": [clock],
        }
        if self.size is None:
            self.model.fit(images, images, **options)
            return clock.seconds
        index = rng.integers(0, self.size, len(images))
        if self.dimension == "embedding":
            index = index.astype("int32")
            self.model.fit((images, index), images, **options)
        else:
            self._fit_indexed(index, options)
        return clock.seconds

    def _fit_indexed(self, index, options):
        import keras_likelihood as kl

        y = kl.indexed(self.images, index=index)
        self.model.fit(self.images, y, **options)


def _clock():
    import keras

    class Clock(keras.callbacks.Callback):
        """Time of an epoch's steps, less the first two."""

        def on_train_batch_begin(self, batch, logs=None):
            if batch == 2:
                self.start = _now()
            self.last = batch

        def on_epoch_end(self, epoch, logs=None):
            float(logs["loss"])
            elapsed = _now() - self.start
            self.seconds = (elapsed / (self.last - 1)).tolist()

    return Clock()


def _now():
    return np.array([time.perf_counter(), time.process_time()])


def variants(images, batch_size, folder, quick):
    scalar = SCALAR_SIZES[:2] if quick else SCALAR_SIZES
    element = ELEMENT_SIZES[:1] if quick else ELEMENT_SIZES

    def variant(*arguments):
        return Variant(images, batch_size, *arguments)

    made = {"without": variant(None, None), "twin": variant(None, None)}
    for n in scalar:
        made[f"scalar {n}"] = variant(n, "scalar")
    for n in element:
        made[f"element {n}"] = variant(n, "element")
    for kind, sizes in (("scalar", FILE_SIZES), ("element", element[:1])):
        for n in sizes:
            path = os.path.join(folder, f"{kind}_{n}.npy")
            made[f"{kind}-file {n}"] = variant(n, kind, path)
    for n in scalar:
        made[f"embedding {n}"] = variant(n, "embedding")
    return made


def measure(args):
    """Times `{variant: [(passed, computed) per round]}` of a step."""
    rng = np.random.default_rng(0)
    steps = args.steps
    rounds = 4 if args.quick else args.rounds
    count = (steps + 2) * args.batch_size
    images = rng.random((count, *IMAGE), dtype="float32")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        made = variants(images, args.batch_size, folder, args.quick)
        times = {name: [] for name in made}
        for v in made.values():
            v.step_time(rng)
        order = list(made)
        for _ in range(rounds):
            rng.shuffle(order)
            for name in order:
                times[name].append(made[name].step_time(rng))
    return times


def report(backend, times):
    """Prints the ratios and whether they meet their bars."""
    best = {k: 1e3 * np.min(rounds, axis=0) for k, rounds in times.items()}

    def ratio(a, b):
        return best[a] / best[b]

    base = best["without"][0]
    print(f"\n{backend}: {base:.2f} ms a step without data parameters")
    twin = ratio("twin", "without")
    noise = abs(np.log(twin[0]))
    _line("the same once more", twin, None, "without", noise)
    names = [n for n in times if n not in ("without", "twin")]
    for name in names:
        kind, rows = name.split()
        reference, bar = "without", None
        if kind == "scalar":
            bar = SCALAR_BAR[backend]
        elif kind == "element":
            bar = ELEMENT_BAR
        elif kind.endswith("-file"):
            memory = kind.removesuffix("-file")
            reference = next(n for n in names if n.startswith(memory))
            bar = FILE_BAR
        value = ratio(name, reference)
        label = f"{kind:12s} N = {int(rows):>10,} {best[name][0]:8.2f} ms"
        _line(label, value, bar, reference, noise)
    for kind in ("scalar", "element", "embedding"):
        same = [n for n in names if n.startswith(f"{kind} ")]
        if len(same) > 1:
            bar = None if kind == "embedding" else GROWTH_BAR
            value = ratio(same[-1], same[0])
            _line(f"{kind:9s} largest / smallest N", value, bar, "", noise)


def _line(label, ratios, bar, reference, noise):
    passed, computed = ratios
    verdict = ""
    if bar is not None:
        margin = np.log(bar / passed)
        word = "met" if margin >= 0 else "MISSED"
        # A ratio below 1 is noise too: nothing here makes a step cheaper.
        if abs(margin) < noise or (passed < 1 and noise > np.log(bar)):
            word = "undecided"
        verdict = f"bar {bar:.2f} {word}"
    against = f"of {reference}" if reference else ""
    print(
        f"  {label:39s} {passed:7.3f}x {against:16s} "
        f"(computed {computed:7.3f}x)  {verdict}"
    )


def parse():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
    )
    installed = [b for b in BACKENDS if importlib.util.find_spec(b)]
    parser.add_argument("--backends", nargs="+", default=installed)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--folder", help="where the files go")
    parser.add_argument("--child", action="store_true")
    return parser.parse_args()


def _environment(backend):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [root, os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "KERAS_BACKEND": backend,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


def main():
    args = parse()
    if args.child:
        print(json.dumps(measure(args)))
        return
    for backend in args.backends:
        done = subprocess.run(
            [sys.executable, __file__, "--child", *sys.argv[1:]],
            env=_environment(backend),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        report(backend, json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
