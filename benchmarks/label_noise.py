"""Compares ways to train on wrong labels and to find them.

Every method trains the same network with the same schedule and is evaluated at
its last epoch, without using the share of wrong labels. The methods are
cross-entropy, also with early stopping on held-out labels and on labels that an
early network agrees with, label smoothing, data temperatures and
`NoisyLabelsLoss`, which is ELR. cleanlab ranks labels with five out-of-fold
networks.

    python benchmarks/label_noise.py
    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... \\
        python benchmarks/label_noise.py cifar10 clean aggre random1 worse

The first command uses the digits of scikit-learn with randomly changed labels,
and runs on any backend. The second uses CIFAR-10N, whose wrong labels are human
mistakes, from `images/cifar10_jpeg90.npz` and `labels/cifar10n.npz` in that
folder, and needs a GPU. `cifar100 0.4` moves 40 % of the labels of the hundred
classes to another class at random, `pairs0.4` to the next class.

The script prints the accuracy on clean test labels, the average precision of
the ranking of the training labels, and how many labels each method suspects.
Results are added to `docs/results/label_noise.json`, and runs that are there
are not repeated.
"""

import argparse
import functools
import json
import pathlib
import time
from typing import NamedTuple

import keras
import numpy as np
from keras import ops
from label_noise_networks import batches, network, optimizer_for, standardised
from paper import get_data
from sklearn.datasets import load_digits

import keras_likelihood as kl

STORE = pathlib.Path(__file__).parents[1] / "docs/results/label_noise.json"
EPOCHS, SEEDS = 30, 3
PEOPLE = {
    "clean": "clean_label",
    "aggre": "aggre_label",
    "random1": "random_label1",
    "worse": "worse_label",
}
"""Labels of CIFAR-10N: the truth, and people's with 9, 17 and 40 % errors."""


class Data(NamedTuple):
    """Training and test images; `labels` may differ from `truth`."""

    x: np.ndarray
    labels: np.ndarray
    truth: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    size: int

    @property
    def wrong(self):
        return self.labels != self.truth

    @property
    def classes(self):
        return int(self.truth.max()) + 1


def load(name, kind, seed):
    """Images of a set with labels of a kind."""
    if name == "digits":
        x, y = load_digits(return_X_y=True)
        x = (x.reshape(-1, 8, 8, 1) / 16).astype("float32")
        order = np.random.default_rng(seed).permutation(len(x))
        (x, x_test), (y, y_test) = (np.split(a[order], [1400]) for a in (x, y))
    else:
        (x, y), (x_test, y_test) = get_data.labelled_images(name)
        y, y_test = (a.astype("int32").ravel() for a in (y, y_test))
    if kind in PEOPLE:
        with np.load(get_data.folder() / "labels" / "cifar10n.npz") as file:
            labels = file[PEOPLE[kind]].astype("int32").ravel()
    else:
        labels = moved(y, kind, np.random.default_rng(1000 + seed))
    return Data(x, labels, y, x_test, y_test, 32 if name == "digits" else 256)


def moved(truth, kind, rng):
    """Labels of which a share is moved to another or to the next class."""
    classes = int(truth.max()) + 1
    is_next = kind.startswith("pairs")
    by = 1 if is_next else rng.integers(1, classes, len(truth))
    wrong = rng.random(len(truth)) < float(kind.removeprefix("pairs"))
    return np.where(wrong, (truth + by) % classes, truth).astype("int32")


class Smoothed(kl.likelihoods.Softmax, registered=False):
    """Cross-entropy with a tenth of each label spread over all classes."""

    def nll(self, y):
        even = -ops.mean(ops.log_softmax(self.prediction), axis=-1)
        return 0.9 * super().nll(y) + 0.1 * even


def cross_entropy(rows=None):
    return kl.losses.SoftmaxLoss(temperature=1.0)


LOSSES = {
    "cross-entropy": cross_entropy,
    "label smoothing": lambda n: kl.losses.LikelihoodLoss(
        Smoothed, temperature=1.0
    ),
    "data temperatures": lambda n: kl.losses.SoftmaxLoss(
        temperature=kl.DataParameter(n, learning_rate=0.5)
    ),
    "NoisyLabelsLoss (ELR)": lambda n: kl.losses.NoisyLabelsLoss(
        kl.DataParameter(n)
    ),
}
"""Methods that are one loss, trained once to the last epoch."""


class Margins(keras.callbacks.Callback):
    """Mean over epochs of the label's logit less the next (AUM)."""

    def __init__(self, data):
        super().__init__()
        self.data, self.total = data, 0.0

    def on_epoch_end(self, epoch, logs=None):
        logits = predict(self.model, self.data.x)
        rows = np.arange(len(logits)), self.data.labels
        own = logits[rows]
        logits[rows] = -np.inf
        self.total = self.total + own - logits.max(axis=1)


class Best(keras.callbacks.Callback):
    """Keeps the weights of the epoch with the best held-out accuracy."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y, self.accuracy, self.weights = x, y, -1.0, None

    def on_epoch_end(self, epoch, logs=None):
        accuracy = np.mean(predict(self.model, self.x).argmax(1) == self.y)
        if accuracy > self.accuracy:
            self.accuracy, self.weights = accuracy, self.model.get_weights()


def train(loss, data, seed, callbacks=(), rows=slice(None), epochs=EPOCHS):
    """A network fitted to the labels, and the seconds of `fit`."""
    keras.utils.set_random_seed(seed)
    x, y = data.x[rows], data.labels[rows]
    model = network(data.x, data.classes)
    steps = len(x) // data.size
    model.compile(optimizer_for(x, epochs, steps), loss=loss)
    start = time.perf_counter()
    model.fit(
        **batches(x, y, data.size, seed),
        epochs=epochs,
        callbacks=list(callbacks),
        verbose=0,
    )
    return model, time.perf_counter() - start


def by_loss(name, data, seed):
    """Accuracy, ranking and count of a method that is one loss."""
    margins = [Margins(data)] if name == "cross-entropy" else []
    model, seconds = train(LOSSES[name](len(data.x)), data, seed, margins)
    report = kl.audit(
        model, standardised(data.x), data.labels, None, batch_size=1000
    )
    result = {
        "accuracy": accuracy(model, data),
        "precision": average_precision(report.scores, data.wrong),
        "found": report.num_issues,
        "seconds": seconds,
    }
    for callback in margins:
        precision = average_precision(-callback.total, data.wrong)
        result["precision of AUM"] = precision
    return result


def stopped(data, seed):
    """Cross-entropy, stopped by the labels of a tenth that is held out."""
    order = np.random.default_rng(seed).permutation(len(data.x))
    held_out, rows = np.split(order, [len(order) // 10])
    best = Best(data.x[held_out], data.labels[held_out])
    model, seconds = train(cross_entropy(), data, seed, [best], rows)
    model.set_weights(best.weights)
    return {"accuracy": accuracy(model, data), "seconds": seconds}


def selected(data, seed):
    """A third of the epochs selects labels, the rest trains on these.

    A label is kept if the first network predicts it. The second network
    starts afresh.
    """
    early = EPOCHS // 3
    first, seconds = train(cross_entropy(), data, seed, epochs=early)
    agrees = predict(first, data.x).argmax(axis=1) == data.labels
    rows = np.flatnonzero(agrees)
    model, more = train(
        cross_entropy(), data, seed, rows=rows, epochs=EPOCHS - early
    )
    return {
        "accuracy": accuracy(model, data),
        "found": len(agrees) - len(rows),
        "seconds": seconds + more,
    }


def cleanlab(data, seed, folds=5):
    """What cleanlab makes of networks that never saw the example."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    fold = np.random.default_rng(seed).permutation(len(data.x)) % folds
    p, seconds = np.zeros((len(fold), data.classes)), 0.0
    for k in range(folds):
        rows = np.flatnonzero(fold != k)
        model, more = train(cross_entropy(), data, seed, rows=rows)
        logits = predict(model, data.x[fold == k])
        logits = np.exp(logits - logits.max(axis=1, keepdims=True))
        p[fold == k] = logits / logits.sum(axis=1, keepdims=True)
        seconds += more
    quality = get_label_quality_scores(data.labels, p)
    return {
        "precision": average_precision(-quality, data.wrong),
        "found": int(find_label_issues(data.labels, p).sum()),
        "seconds": seconds,
    }


METHODS = {
    **{name: functools.partial(by_loss, name) for name in LOSSES},
    "stopped by held-out labels": stopped,
    "early selection": selected,
    "cleanlab, five folds": cleanlab,
}


def predict(model, x):
    return model.predict(standardised(x), batch_size=1000, verbose=0)


def accuracy(model, data):
    classes = predict(model, data.x_test).argmax(axis=1)
    return float(np.mean(classes == data.y_test))


def average_precision(score, wrong):
    """Mean precision over the places of the wrong labels in the ranking."""
    if not wrong.any():
        return None
    hits = wrong[np.argsort(-score, kind="stable")]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default="digits")
    parser.add_argument("labels", nargs="*", default=["0", "0.4", "pairs0.3"])
    args = parser.parse_args()
    if args.data != "digits":
        keras.config.set_dtype_policy("mixed_bfloat16")
    results = json.loads(STORE.read_text()) if STORE.exists() else []
    keys = "data", "labels", "method", "epochs", "seed"
    done = {tuple(r[k] for k in keys) for r in results}
    for kind in args.labels:
        for seed in range(SEEDS):
            data = load(args.data, kind, seed)
            for name, method in METHODS.items():
                key = args.data, kind, name, EPOCHS, seed
                if key in done:
                    continue
                head = dict(zip(keys, key, strict=True))
                head["wrong"] = int(data.wrong.sum())
                results.append({**head, **method(data, seed)})
                print(json.dumps(results[-1]), flush=True)
                STORE.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
