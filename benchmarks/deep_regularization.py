"""Learned weight decay of a residual network against a grid of it.

A ResNet of 20 layers on CIFAR-10, trained by SGD with momentum and a cosine
schedule: without regularization, with AdamW at its default, with each member
of a grid of L2 strengths, and once with D-Ridge on every kernel. Printed are
the test accuracy, the test NLL and the seconds of one run. It runs on JAX: the
images stay on the device and are cropped and flipped there.

    KERAS_BACKEND=jax python benchmarks/deep_regularization.py \
        --data cifar10.npz --examples 5000 --epochs 60 --seeds 3

With `--rounds 4` it trains without regularization and with D-Ridge in turns,
four times each, and prints the seconds of an epoch after the first.

The `.npz` file holds `x_train`, `y_train`, `x_test`, `y_test`: bytes
`(n, 32, 32, 3)` and class numbers. `--data synthetic` draws a tiny set.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np

import keras_likelihood as kl
from keras_likelihood import regularizers

GRID = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 2e-3, 4e-3, 8e-3)
PADDING = 4
COLUMNS = ("accuracy", "nll", "seconds")


class DeviceBatches(keras.utils.PyDataset):
    """Shuffled, cropped and flipped batches of images on the device."""

    def __init__(self, x, y, batch, seed):
        super().__init__()
        self.images = jnp.pad(
            jnp.asarray(x), [(0, 0), (PADDING,) * 2, (PADDING,) * 2, (0, 0)]
        )
        self.labels = jnp.asarray(y)
        self.batch = min(batch, len(x))
        self.random = np.random.default_rng(seed)
        self.key = jax.random.PRNGKey(seed)
        self.on_epoch_end()

    def __len__(self):
        return len(self.labels) // self.batch

    def on_epoch_end(self):
        self.order = self.random.permutation(len(self.labels))

    def __getitem__(self, step):
        rows = self.order[step * self.batch : (step + 1) * self.batch]
        self.key, key = jax.random.split(self.key)
        return _augmented(self.images, jnp.asarray(rows), key), self.labels[
            jnp.asarray(rows)
        ]


@jax.jit
def _augmented(images, rows, key):
    crop, flip = jax.random.split(key)
    size = images.shape[1] - 2 * PADDING
    corners = jax.random.randint(crop, (len(rows), 2), 0, 2 * PADDING + 1)
    flips = jax.random.bernoulli(flip, shape=(len(rows),))

    def one(row, corner, flipped):
        start = (row, corner[0], corner[1], 0)
        image = jax.lax.dynamic_slice(images, start, (1, size, size, 3))[0]
        return jnp.where(flipped, image[:, ::-1], image)

    return jax.vmap(one)(rows, corners, flips)


def load(path, examples):
    if path == "synthetic":
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, 400)
        means = rng.standard_normal((10, 32, 32, 3))
        x = (means[y] + 2 * rng.standard_normal((400, 32, 32, 3))) / 2
        x = x.astype("float32")
        return x[:200][:examples], y[:200][:examples], x[200:], y[200:]
    with np.load(path) as data:
        x, y = data["x_train"][:examples], data["y_train"][:examples]
        new_x, new_y = data["x_test"], data["y_test"]
    mean, deviation = x.mean((0, 1, 2)), x.std((0, 1, 2))
    x, new_x = [((a - mean) / deviation).astype("float32") for a in (x, new_x)]
    return x, y.ravel().astype("int32"), new_x, new_y.ravel().astype("int32")


def resnet(make_regularizer, blocks):
    def conv(x, width, strides=1, size=3):
        x = keras.layers.Conv2D(
            width,
            size,
            strides,
            "same",
            use_bias=False,
            kernel_initializer="he_normal",
            kernel_regularizer=make_regularizer(),
        )(x)
        return keras.layers.BatchNormalization(momentum=0.9)(x)

    inputs = keras.Input((32, 32, 3))
    x = keras.ops.relu(conv(inputs, 16))
    for width in (16, 32, 64):
        for i in range(blocks):
            strides = 2 if width > 16 and i == 0 else 1
            y = keras.ops.relu(conv(x, width, strides))
            y = conv(y, width)
            if strides > 1:
                x = conv(x, width, strides, size=1)
            x = keras.ops.relu(x + y)
    x = keras.layers.GlobalAveragePooling2D()(x)
    outputs = keras.layers.Dense(10, kernel_regularizer=make_regularizer())(x)
    return kl.LikelihoodModel(inputs, outputs)


class Clock(keras.callbacks.Callback):
    """Seconds at the end of each epoch; training runs ahead of Python."""

    def on_train_begin(self, logs=None):
        self.start, self.ends = time.perf_counter(), []

    def on_epoch_end(self, epoch, logs=None):
        jax.block_until_ready([w.value for w in self.model.weights])
        self.ends.append(time.perf_counter() - self.start)


def fit(name, data, arguments, seed):
    """`(a dict of numbers, the report of D-Ridge)`."""
    x, y, new_x, new_y = data
    keras.utils.set_random_seed(seed)
    makers = {
        "D-Ridge": lambda: regularizers.DRidge(num_examples=len(x)),
    }
    make = makers.get(name, lambda: None)
    if name.startswith("L2"):
        strength = float(name.split()[1])
        # Keras' L2 is the sum of squares, half of which is weight decay.
        make = lambda: keras.regularizers.L2(strength / 2)  # noqa: E731
    model = resnet(make, arguments.blocks)
    batches = DeviceBatches(x, y, arguments.batch, seed)
    steps = arguments.epochs * len(batches)
    rate = 1e-3 if name == "AdamW" else arguments.rate
    schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
    if name == "AdamW":
        optimizer = keras.optimizers.AdamW(schedule)
    else:
        optimizer = keras.optimizers.SGD(schedule, momentum=0.9)
    model.compile(optimizer, loss=kl.losses.SoftmaxLoss(temperature=1.0))
    clock = Clock()
    callbacks = [clock]
    if name == "D-Ridge":
        callbacks.append(regularizers.MeasuredCurvature(x, seed=seed))
    start = time.perf_counter()
    model.fit(batches, epochs=arguments.epochs, verbose=0, callbacks=callbacks)
    seconds = time.perf_counter() - start
    logits = model.predict(new_x, batch_size=1000, verbose=0)
    logits = logits - logits.max(axis=1, keepdims=True)
    losses = (
        np.log(np.exp(logits).sum(axis=1))
        - logits[np.arange(len(new_y)), new_y]
    )
    accuracy = np.mean(logits.argmax(axis=1) == new_y)
    later = np.diff(clock.ends)
    return {
        "accuracy": float(accuracy),
        "nll": float(losses.mean()),
        "seconds": seconds,
        "first_epoch": clock.ends[0],
        "later_epochs": float(np.mean(later)) if len(later) else None,
    }, regularizers.report(model)


def compare_times(data, arguments):
    """Prints the seconds of an epoch, without and with D-Ridge in turns."""
    found: dict = {"plain": [], "D-Ridge": []}
    for seed in range(arguments.rounds):
        for name, seconds in found.items():
            numbers, _ = fit(name, data, arguments, seed)
            seconds.append(numbers["later_epochs"])
            print(f"{name:14}{seconds[-1]:9.4f}", flush=True)
            keras.backend.clear_session()
    ratio = np.mean(found["D-Ridge"]) / np.mean(found["plain"])
    print(f"D-Ridge takes {ratio:.2f} times as long")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="an .npz, or synthetic")
    parser.add_argument("--examples", type=int, default=5000)
    parser.add_argument("--grid", type=float, nargs="*", default=GRID)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--blocks", type=int, default=3, help="3: ResNet-20")
    parser.add_argument("--rounds", type=int, default=0, help="of timing")
    arguments = parser.parse_args()
    data = load(arguments.data, arguments.examples)
    print(f"{len(data[0])} images, {arguments.epochs} epochs")
    if arguments.rounds:
        compare_times(data, arguments)
        return
    print(f"{'':14}{'accuracy':>10}{'+-':>8}{'NLL':>9}{'+-':>8}{'seconds':>9}")
    grid = [f"L2 {strength:g}" for strength in arguments.grid]
    for name in ["D-Ridge", "plain", "AdamW", *grid]:
        rows = []
        for seed in range(arguments.seeds):
            numbers, table = fit(name, data, arguments, seed)
            rows.append([numbers[key] for key in COLUMNS])
            keras.backend.clear_session()
        accuracy, nll, seconds = np.array(rows).T
        error = 1 / np.sqrt(max(len(rows) - 1, 1))
        print(
            f"{name:14}{accuracy.mean():10.4f}{accuracy.std() * error:8.4f}"
            f"{nll.mean():9.4f}{nll.std() * error:8.4f}"
            f"{np.median(seconds):9.1f}",
            flush=True,
        )
        if table:
            print(table, flush=True)


if __name__ == "__main__":
    main()
