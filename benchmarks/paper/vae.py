"""Variational auto-encoders of faces under the robust loss.

    python benchmarks/paper/vae.py
    python benchmarks/paper/vae.py --runs RUNS.jsonl --only "data HxWxC"
    python benchmarks/paper/vae.py --size 32 --images 2000 --epochs 5

A convolutional VAE of CelebA faces, trained with shape and scale of the robust
likelihood that are global, learned for each training image, or predicted by a
1x1 convolution of the decoder's last features; one pair for an image, or one
for every pixel and channel. `weighted` is the last of these with
`RobustRhoLoss(beta=1, balanced=True)`, so that pixels of large scale train the
reconstruction as much as the others. The error is the squared error of a
held-out face's reconstruction, summed over pixels in [0, 1]. Times and bytes
are relative to a normal likelihood with scale 1. Each time is measured
separately, over a few epochs. Meant for a GPU; the last command is for a CPU.

With `--runs`, every training is a line of that file and is not done again, so
several processes, each with `--only` a few variants, may fill it side by side.
The call without `--only` then writes the results.
"""

import argparse
import pathlib
import time

import keras
import numpy as np
from datasets import celeba
from keras import layers
from results import Mosaic, parser, record
from runs import Runs

import keras_likelihood as kl

CODE = 16
TIMED_EPOCHS = 4
START = {"scale": 0.1}
VARIANTS = [
    ("normal, scale 1", "normal", None),
    ("normal, learned scale", "normal, global", None),
    ("global 1x1x1", "global", "scalar"),
    ("data 1x1x1", "data", "scalar"),
    ("predicted 1x1x1", "predicted", "scalar"),
    ("global HxWxC", "global", "element"),
    ("data HxWxC", "data", "element"),
    ("predicted HxWxC", "predicted", "element"),
    ("weighted HxWxC", "weighted", "element"),
]
SHOWN = "weighted HxWxC"
TITLES = ("face", "prediction", "shape", "scale")


def faces(size, count):
    """CelebA faces in [0, 1], `(count, size, size, 3)`."""
    from PIL import Image

    images = []
    for pixels in celeba(count):
        # The middle of the image, as in most work on these faces.
        side = round(pixels.shape[1] * 74 / 89)
        top, left = ((length - side) // 2 for length in pixels.shape[:2])
        face = Image.fromarray(pixels[top : top + side, left : left + side])
        images.append(np.asarray(face.resize((size, size))) / 255)
    return np.stack(images).astype("float32")


class SampledCode(layers.Layer):
    """Draws a code and adds its KL divergence, as NLL per element.

    Args:
        elements: numbers in an image, over which the loss is a mean.
    """

    def __init__(self, elements, **kwargs):
        super().__init__(**kwargs)
        self.elements = elements
        self.seeds = keras.random.SeedGenerator(0)

    def call(self, inputs, training=False):
        mean, log_variance = inputs
        spread = keras.ops.exp(log_variance)
        divergence = mean**2 + spread - 1 - log_variance
        self.add_loss(
            0.5 * keras.ops.mean(keras.ops.sum(divergence, -1)) / self.elements
        )
        if not training:
            return mean
        noise = keras.random.normal(keras.ops.shape(mean), seed=self.seeds)
        return mean + keras.ops.sqrt(spread) * noise


def features(inputs, size):
    """The decoder's last feature maps, of the size of the image."""
    h = inputs
    for filters in (32, 64, 128):
        h = layers.Conv2D(
            filters, 4, strides=2, padding="same", activation="relu"
        )(h)
    h = layers.Flatten()(h)
    code = SampledCode(3 * size**2)(
        [layers.Dense(CODE)(h), layers.Dense(CODE)(h)]
    )
    h = layers.Dense(size**2 // 64 * 128, activation="relu")(code)
    h = layers.Reshape((size // 8, size // 8, 128))(h)
    for filters in (64, 32, 32):
        h = layers.Conv2DTranspose(
            filters, 4, strides=2, padding="same", activation="relu"
        )(h)
    return h


def build(kind, dimension, size, count, steps):
    """A compiled VAE and its data parameters."""
    inputs = keras.Input((size, size, 3))
    h = features(inputs, size)
    data = []
    if kind == "normal":
        outputs = layers.Conv2D(3, 1)(h)
        loss = kl.losses.NormalLoss(scale=1.0)
    elif kind == "normal, global":
        outputs = layers.Conv2D(3, 1)(h)
        loss = kl.losses.NormalLoss(
            scale=kl.layers.GlobalParameter(initial=START["scale"])
        )
    elif kind == "data":
        outputs = layers.Conv2D(3, 1)(h)
        shape = kl.DataParameter(count, dimension=dimension)
        scale = kl.DataParameter(
            count, dimension=dimension, initial=START["scale"]
        )
        data = [shape, scale]
        loss = kl.losses.RobustRhoLoss(shape=shape, scale=scale)
    else:
        weighted = kind == "weighted"
        outputs = kl.layers.RobustRhoHead(
            3,
            conditioning="predicted" if weighted else kind,
            dimension=dimension,
            initial=START,
        )(h)
        loss = kl.losses.RobustRhoLoss(
            beta=1.0 if weighted else 0.0, balanced=True
        )
    model = kl.LikelihoodModel(inputs, outputs)
    rate = keras.optimizers.schedules.CosineDecay(1e-3, steps)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    return model, data


class EpochTimes(keras.callbacks.Callback):
    """Seconds of every epoch."""

    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self._start)


def bytes_of(model):
    """Of all variables: the model's, its optimizer's, data parameters'."""
    variables = {id(v): v for v in model.variables}
    variables.update({id(v): v for v in model.optimizer.variables})
    # All are float32 or int32.
    return sum(4 * int(np.prod(v.shape)) for v in variables.values())


def train(kind, dimension, x, held, options, seed):
    """Error, seconds of an epoch, bytes and the model."""
    keras.utils.set_random_seed(seed)
    steps = options.epochs * -(-len(x) // options.batch)
    model, data = build(kind, dimension, x.shape[1], len(x), steps)
    clock = EpochTimes()
    fit(model, data, x, options, clock)
    decoded = reconstruct(model, held, options)[0]
    seconds = np.median(clock.seconds[1:] or clock.seconds)
    return error_of(decoded, held), float(seconds), bytes_of(model), model


def fit(model, data, x, options, *callbacks):
    """Trains a VAE with its data parameters."""
    model.fit(
        x,
        kl.indexed(x) if data else x,
        batch_size=options.batch,
        epochs=options.epochs,
        callbacks=[*data, *callbacks],
        verbose=0,
    )


def reconstruct(model, held, options):
    """Reconstructions, and shape and scale if the model has them."""
    found = model.predict(held, batch_size=options.batch, verbose=0)
    return found if isinstance(found, list | tuple) else [found]


def error_of(decoded, held):
    """Squared error, summed over pixels."""
    return float(np.mean(np.sum((decoded - held) ** 2, axis=(1, 2, 3))))


def maps(model, held):
    """Faces, reconstructions, shapes and scales, each map to its range."""
    decoded, shape, scale = model.predict(held, verbose=0)
    rows = [held, decoded]
    for values in (shape, np.log(scale)):
        gray = values.mean(axis=-1, keepdims=True).repeat(3, axis=-1)
        low, high = np.quantile(gray, [0.02, 0.98])
        rows.append((gray - low) / (high - low + 1e-9))
    return Mosaic([list(row) for row in rows], TITLES)


def parse(description=__doc__, epochs=30):
    options = parser(description)
    options.add_argument("--size", type=int, default=64)
    options.add_argument("--images", type=int, default=10_000)
    options.add_argument("--epochs", type=int, default=epochs)
    options.add_argument("--batch", type=int, default=64)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--runs", type=pathlib.Path)
    options.add_argument("--only", nargs="+", default=[])
    options = options.parse_args()
    if options.quick:
        options.size, options.images, options.epochs = 16, 80, 1
        options.seeds = 1
    return options


def run_all(runs, x, held, options):
    """Trains what is missing; returns the last model of `SHOWN`, or `None`.

    All variants have a seed before the next one begins, so that results that
    are cut short are still pairs.
    """
    shown = None
    for seed in range(options.seeds):
        for name, kind, dimension in VARIANTS:
            left_out = options.only and name not in options.only
            if left_out or runs.find(variant=name, seed=seed):
                continue
            error, _, used, model = train(
                kind, dimension, x, held, options, seed
            )
            runs.add(variant=name, seed=seed, error=error, bytes=used)
            shown = model if name == SHOWN else shown
    return shown


def time_all(runs, x, held, options):
    """Seconds of an epoch; nothing else may use the device meanwhile."""
    short = argparse.Namespace(**vars(options))
    short.epochs = min(TIMED_EPOCHS, options.epochs)
    for name, kind, dimension in VARIANTS:
        if not runs.find(variant=name, seed="time"):
            _, seconds, _, _ = train(kind, dimension, x, held, short, 0)
            runs.add(variant=name, seed="time", seconds=seconds)


def collect(runs, images, options):
    """The results as `record` takes them."""
    names = [name for name, _, _ in VARIANTS]
    errors = {
        name: [
            runs.find(variant=name, seed=s)["error"]
            for s in range(options.seeds)
        ]
        for name in names
    }
    second = runs.find(variant=names[0], seed="time")["seconds"]
    memory = runs.find(variant=names[0], seed=0)["bytes"]
    table = {
        "columns": ["MSE", "time", "memory, MB"],
        "rows": {
            name: [
                float(np.mean(errors[name])),
                runs.find(variant=name, seed="time")["seconds"] / second,
                (runs.find(variant=name, seed=0)["bytes"] - memory) / 1e6,
            ]
            for name in names
        },
        "digits": 2,
        "paper": "tab:vae",
    }
    per_seed = {
        "columns": [f"seed {seed}" for seed in range(options.seeds)],
        "rows": errors,
        "digits": 1,
    }
    return {
        "images": images,
        "size": options.size,
        "epochs": options.epochs,
        "code": CODE,
        "seeds": options.seeds,
        "spread": max(float(np.ptp(values)) for values in errors.values()),
        "milliseconds": 1e3 * second / -(-images // options.batch),
        "tables": {"errors": table, "each_seed": per_seed},
    }


def main():
    options = parse()
    images = faces(options.size, options.images)
    cut = len(images) * 9 // 10
    x, held = images[:cut], images[cut:]
    runs = Runs(options.runs)
    shown = run_all(runs, x, held, options)
    picture = options.runs and options.runs.with_suffix(".npy")
    if shown is not None and picture:
        np.save(picture, maps(shown, held[:10]).pixels)
    if options.only:
        return
    time_all(runs, x, held, options)
    if shown is not None:
        mosaic = maps(shown, held[:10])
    else:
        mosaic = Mosaic([[np.load(picture)]], TITLES)
    data = collect(runs, len(x), options)
    record(
        "vae",
        data,
        {"maps": mosaic},
        quick=options.quick,
        circumstances=runs.circumstances(),
    )


if __name__ == "__main__":
    main()
