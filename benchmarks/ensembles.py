"""One fit of an ensemble against as many separate fits.

The model is a regressor with one hidden layer of 50 units and a predicted
scale, on synthetic data. The script prints the seconds from building the model
to the end of `fit`, including compilation, and the seconds of an epoch after
the first one. This is a single run: expect some ten per cent of noise.

    KERAS_BACKEND=jax python benchmarks/ensembles.py
    KERAS_BACKEND=jax python benchmarks/ensembles.py --members 5 --hidden 200
"""

import argparse
import time

import keras
import numpy as np

import keras_likelihood as kl


def network(columns, hidden):
    inputs = keras.Input((columns,))
    features = keras.layers.Dense(hidden, activation="relu")(inputs)
    head = kl.layers.ScaleHead(1, constraint="shifted_softplus")
    return keras.Model(inputs, head(features))


class Epochs(keras.callbacks.Callback):
    """Records the seconds of every epoch except the first."""

    def on_train_begin(self, logs=None):
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        if epoch:
            self.seconds.append(time.perf_counter() - self.started)


def fit(make, x, y, epochs):
    """Seconds from building to the end, and the median of an epoch."""
    started, clock = time.perf_counter(), Epochs()
    model = make()
    model.compile("adam", loss=kl.losses.NormalLoss())
    options = {"batch_size": 32, "epochs": epochs, "verbose": 0}
    model.fit(x, y, callbacks=[clock], **options)
    return time.perf_counter() - started, float(np.median(clock.seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=50)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--columns", type=int, default=13)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(args.rows, args.columns)).astype("float32")
    y = (x[:, :1] + 0.3 * rng.normal(size=(args.rows, 1))).astype("float32")

    def build():
        return network(args.columns, args.hidden)

    def one():
        return kl.LikelihoodModel.from_model(build())

    def together():
        return kl.Ensemble(build, members=args.members)

    # The first fit of a process also starts the backend.
    fit(one, x, y, 2)
    joint = fit(together, x, y, args.epochs)
    each = [fit(one, x, y, args.epochs) for _ in range(args.members)]
    separate = np.sum(each, axis=0)
    print(f"{keras.backend.backend()}, {args.members} members")
    for title, a, b in zip(
        ("whole fit", "an epoch"), joint, separate, strict=True
    ):
        print(
            f"{title:10} ensemble {a:7.2f} s   separately {b:7.2f} s   "
            f"ratio {a / b:.2f}"
        )


if __name__ == "__main__":
    main()
