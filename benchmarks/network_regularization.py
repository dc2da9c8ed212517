"""Learned strengths against a grid of fixed L2 strengths, on networks.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... \
        python benchmarks/network_regularization.py --json networks.json

Five networks classify 5,000 images of CIFAR-10: 40 epochs of Adam with batches
of 128, at a rate that falls from 1e-3 to zero. Each trains with six factors of
Keras' `L2`; with `DRidge` without further arguments, so that `fit` holds out a
tenth of the rows; with `DRidge` and `validation_split=.1`; with one strength
per tensor; and with a factor of the grid on nine tenths of the rows. The NLL is
that of 4,000 test images.

One process per network and seed runs at the same time. On processors with one
thread each, the last column is the processor time of `fit`, with compilation,
over that of `L2(.005)`. Results are written as they come, and a method is
skipped after `--minutes`.
"""

import argparse
import concurrent.futures
import io
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

GRID = ("0", "0.0005", "0.0015", "0.005", "0.015", "0.05")
METHODS = ("DRidge", "DRidge, split", *GRID)
EXTRA = ("DRidge, tensor", "0.005, nine tenths")
NETWORKS = ("CNN", "transformer", "GRU", "DenseNet", "MLP")


def images(train: int, test: int, small: bool):
    """Standardised images and labels: training, test."""
    from PIL import Image

    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"])
    with np.load(folder / "images" / "cifar10_jpeg90.npz") as file:
        labels = file["y_train"], file["y_test"]
        tiles_down, tiles_across, height, width = map(int, file["grid"])
        ends, jpeg = np.cumsum(file["lens"]), file["jpeg"]
    count = tiles_down * tiles_across

    def some(first, rows):
        found, place = [], first // count
        while sum(map(len, found)) < first % count + rows:
            start = ends[place - 1] if place else 0
            data = jpeg[start : ends[place]].tobytes()
            pixels = np.asarray(Image.open(io.BytesIO(data)))
            shape = tiles_down, height, tiles_across, width, 3
            pixels = pixels.reshape(shape).swapaxes(1, 2)
            found.append(pixels.reshape(-1, height, width, 3))
            place += 1
        start = first % count
        return np.concatenate(found)[start : start + rows]

    x, xt = some(0, train), some(len(labels[0]), test)
    if small:
        x, xt = (
            a.reshape(len(a), 16, 2, 16, 2, 3).mean((2, 4)) for a in (x, xt)
        )
    mean, spread = x.mean((0, 1, 2)), x.std((0, 1, 2))
    x, xt = (((a - mean) / spread).astype("float32") for a in (x, xt))
    y, yt = labels[0][:train], labels[1][:test]
    return x, y.astype("int32"), xt, yt.astype("int32")


def features(network, x, make):
    """The layers in front of the classifier; `make` makes a regularizer."""
    from keras import layers, ops

    size = x.shape[1]
    part = 1 if size == 32 else 2
    patches = (size // 4) ** 2

    def dense(x, units, activation=None):
        return layers.Dense(units, activation, kernel_regularizer=make())(x)

    def convolution(x, width, activation="relu", bias=True):
        return layers.Conv2D(
            width,
            3,
            padding="same",
            activation=activation,
            use_bias=bias,
            kernel_initializer="he_normal",
            kernel_regularizer=make(),
        )(x)

    if network == "CNN":
        for width in (32 // part, 64 // part, 128 // part):
            x = convolution(convolution(x, width), width)
            x = layers.MaxPooling2D()(x)
        return dense(layers.Flatten()(x), 128 // part, "relu")
    if network == "transformer":
        x = layers.Conv2D(64, 4, 4, kernel_regularizer=make())(x)
        x = layers.Reshape((patches, 64))(x)
        # The position of each patch.
        places = ops.cumsum(ops.ones_like(x[..., 0]), axis=1) - 1
        x = x + layers.Embedding(patches, 64)(places)
        for _ in range(4 - part):
            y = layers.LayerNormalization()(x)
            attention = layers.MultiHeadAttention(
                4, 16, kernel_regularizer=make()
            )
            x = x + attention(y, y)
            y = layers.LayerNormalization()(x)
            x = x + dense(dense(y, 128, "gelu"), 64)
        return layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    if network == "GRU":
        x = layers.Reshape((size, 3 * size))(x)
        return layers.GRU(
            128 // part,
            kernel_regularizer=make(),
            recurrent_regularizer=make(),
        )(x)
    if network == "DenseNet":
        x = convolution(x, 24, None, bias=False)
        for block in range(3):
            for _ in range(5 - part):
                y = ops.relu(layers.BatchNormalization(momentum=0.9)(x))
                y = convolution(y, 12, None, bias=False)
                x = layers.Concatenate()([x, y])
            if block < 2:
                x = layers.AveragePooling2D(2)(x)
        x = ops.relu(layers.BatchNormalization(momentum=0.9)(x))
        return layers.GlobalAveragePooling2D()(x)
    x = layers.Flatten()(layers.AveragePooling2D(2)(x))
    return dense(dense(x, 256, "relu"), 128, "relu")


def run(network, method, seed, data, epochs):
    """One training of a new model, as a line of the results."""
    import keras

    import keras_likelihood as kl

    x, y, xt, yt = data
    keras.utils.set_random_seed(seed)
    name, _, how = method.partition(", ")
    if how == "nine tenths":
        x, y = x[: len(x) * 9 // 10], y[: len(x) * 9 // 10]

    def make():
        if name == "DRidge":
            group = "tensor" if how == "tensor" else "model"
            return kl.regularizers.DRidge(group=group)
        return keras.regularizers.L2(float(name)) if float(name) else None

    inputs = keras.Input(x.shape[1:])
    outputs = keras.layers.Dense(10, kernel_regularizer=make())(
        features(network, inputs, make)
    )
    model = kl.LikelihoodModel(inputs, outputs)
    loss = kl.losses.SoftmaxLoss(temperature=1.0)
    steps = -(-len(x) // 128) * epochs
    rate = keras.optimizers.schedules.CosineDecay(1e-3, steps)
    model.compile(keras.optimizers.Adam(rate), loss=loss)
    options = {"validation_split": 0.1} if how == "split" else {}
    begun, used = time.perf_counter(), time.process_time()
    model.fit(x, y, batch_size=128, epochs=epochs, verbose=0, **options)
    seconds, used = time.perf_counter() - begun, time.process_time() - used
    found = model.predict_distribution(xt, batch_size=1000, verbose=0)
    line = {
        "network": network,
        "method": method,
        "seed": seed,
        "nll": round(float(found.nll(yt).mean()), 4),
        "accuracy": round(float((found.prediction.argmax(-1) == yt).mean()), 4),
        "seconds": round(seconds, 2),
        "processor": round(used, 2),
    }
    if name == "DRidge":
        rows = kl.regularizers.report(model)
        line["factors"] = [float(f"{row.strength:.3g}") for row in rows]
    keras.backend.clear_session()
    return line


def part(arguments):
    """All methods of one network and seed; prints a line for each."""
    data = images(arguments.images, arguments.test_images, arguments.small)
    begun = time.monotonic()
    for method in arguments.methods:
        if time.monotonic() - begun > 60 * arguments.minutes:
            break
        line = run(
            arguments.networks[0],
            method,
            arguments.seed,
            data,
            arguments.epochs,
        )
        print(json.dumps(line), flush=True)


def started(arguments, network, seed):
    """Yields the lines of a process that runs `part`."""
    command = [sys.executable, __file__, "--part", "--networks", network]
    command += ["--seed", str(seed), "--methods", *arguments.methods]
    command += ["--small"] if arguments.small else []
    for name in ("images", "test-images", "epochs", "minutes"):
        value = getattr(arguments, name.replace("-", "_"))
        command += [f"--{name}", str(value)]
    environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    here = pathlib.Path(__file__).resolve().parents[1]
    paths = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True
    )
    for text in process.stdout:
        if text.startswith("{"):
            yield json.loads(text)


def table(lines):
    """Mean and standard error of the NLL over seeds, ratios of NLL and time."""
    for network in NETWORKS:
        runs = [line for line in lines if line["network"] == network]
        nll, seconds = (
            {
                m: [r[k] for r in runs if r["method"] == m]
                for m in METHODS + EXTRA
            }
            for k in ("nll", "processor")
        )
        grid = [np.mean(v) for m, v in nll.items() if m in GRID and v]
        for method, values in nll.items():
            if not (values and grid):
                continue
            error = np.std(values) / max(len(values) - 1, 1) ** 0.5
            of_l2 = np.mean(seconds["0.005"] or np.nan)
            print(
                f"{network:12}{method:20}{np.mean(values):8.3f} +- {error:.3f}"
                f"  {np.mean(values) / min(grid):.3f} of the best L2"
                f"  {np.mean(seconds[method]) / of_l2:.2f} of the time"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="results")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--methods", nargs="+", default=METHODS + EXTRA)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--test-images", type=int, default=4000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--minutes", type=float, default=5.5)
    parser.add_argument("--processes", type=int, default=15)
    parser.add_argument(
        "--small", action="store_true", help="16 x 16 pixels, for a processor"
    )
    parser.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        part(arguments)
        return
    results = {"runs": []}

    def collect(network, seed):
        for line in started(arguments, network, seed):
            results["runs"].append(line)
            print(json.dumps(line), flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")

    with concurrent.futures.ThreadPoolExecutor(arguments.processes) as pool:
        for seed in range(arguments.seeds):
            for network in arguments.networks:
                pool.submit(collect, network, seed)
    table(results["runs"])


if __name__ == "__main__":
    main()
