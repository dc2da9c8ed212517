"""Ways to train on labels that are partly wrong, each on one network."""

import time

import keras
import numpy as np
from keras import ops
from label_noise_networks import (
    batches,
    network,
    optimizer_for,
    standardised,
)

import keras_likelihood as kl


class Smoothed(kl.likelihoods.Softmax, registered=False):
    """Cross-entropy with a tenth of each label spread over all classes."""

    def nll(self, y):
        even = -ops.mean(ops.log_softmax(self.prediction), axis=-1)
        return 0.9 * super().nll(y) + 0.1 * even


class Generalized(kl.likelihoods.Softmax, registered=False):
    """GCE (Zhang and Sabuncu, 2018) with q = 0.7."""

    def nll(self, y):
        return (1 - ops.exp(-0.7 * super().nll(y))) / 0.7


LOSSES = {
    "cross-entropy": lambda n: kl.losses.SoftmaxLoss(temperature=1.0),
    "label smoothing": lambda n: kl.losses.LikelihoodLoss(
        Smoothed, temperature=1.0
    ),
    "GCE": lambda n: kl.losses.LikelihoodLoss(Generalized, temperature=1.0),
    "data temperatures": lambda n: kl.losses.SoftmaxLoss(
        temperature=kl.DataParameter(n, learning_rate=0.5)
    ),
    "NoisyLabelsLoss (ELR)": lambda n: kl.losses.NoisyLabelsLoss(
        kl.DataParameter(n)
    ),
}
"""Methods that are one loss, trained once to the last epoch."""


class Margins(keras.callbacks.Callback):
    """Mean over epochs of the given label's logit less the next (AUM)."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = standardised(x), y
        self.total, self.epochs = 0.0, 0

    def on_epoch_end(self, epoch, logs=None):
        logits = _logits(self.model, self.x)
        self.total, self.epochs = (
            self.total + margins(logits, self.y),
            epoch + 1,
        )

    @property
    def mean(self):
        return self.total / self.epochs


def train(loss, data, epochs, size, seed, callbacks=(), rows=None, **more):
    """A network fitted to the given labels, and the seconds of `fit`."""
    keras.utils.set_random_seed(seed)
    x, y = data.x, data.given
    if rows is not None:
        x, y = x[rows], y[rows]
    model = network(data.x, data.classes)
    steps = len(x) // size
    model.compile(optimizer_for(x, epochs, steps), loss=loss, **more)
    start = time.perf_counter()
    model.fit(
        **batches(x, y, size, seed),
        epochs=epochs,
        callbacks=list(callbacks),
        verbose=0,
    )
    return model, time.perf_counter() - start


def by_loss(name, data, epochs, size, seed):
    """Accuracy, ranking and count of a method that is one loss."""
    loss = LOSSES[name](len(data.x))
    recorded = []
    if name == "cross-entropy":
        recorded = [Margins(data.x, data.given)]
    model, seconds = train(loss, data, epochs, size, seed, recorded)
    report = kl.audit(
        model, standardised(data.x), data.given, None, batch_size=1000
    )
    result = {
        "accuracy": accuracy(model, data),
        "precision": average_precision(report.scores, data.wrong),
        "found": report.num_issues,
        "wrong": int(data.wrong.sum()),
        "seconds": seconds,
    }
    if recorded:
        result["precision of AUM"] = average_precision(
            -recorded[0].mean, data.wrong
        )
    return result


def stopped(data, epochs, size, seed):
    """Cross-entropy, stopped by the labels of a tenth that is held out."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.x))
    held, rows = np.split(order, [len(order) // 10])
    best = _Best(data.x[held], data.given[held])
    loss = LOSSES["cross-entropy"](len(rows))
    model, seconds = train(loss, data, epochs, size, seed, [best], rows)
    model.set_weights(best.weights)
    return {"accuracy": accuracy(model, data), "seconds": seconds}


def selected(data, epochs, size, seed):
    """A third of the epochs selects labels, the rest trains on these.

    A label is kept if the first network predicts it. The second network
    starts afresh.
    """
    loss, early = LOSSES["cross-entropy"], epochs // 3
    first, seconds = train(loss(len(data.x)), data, early, size, seed)
    agrees = _logits(first, data.x).argmax(axis=1) == data.given
    rows = np.flatnonzero(agrees)
    given = data, epochs - early, size, seed
    model, more = train(loss(len(rows)), *given, rows=rows)
    return {
        "accuracy": accuracy(model, data),
        "found": int(len(agrees) - len(rows)),
        "wrong": int(data.wrong.sum()),
        "seconds": seconds + more,
    }


class _Best(keras.callbacks.Callback):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y, self.accuracy, self.weights = x, y, -1.0, None

    def on_epoch_end(self, epoch, logs=None):
        found = np.mean(_logits(self.model, self.x).argmax(axis=1) == self.y)
        if found > self.accuracy:
            self.accuracy, self.weights = found, self.model.get_weights()


def out_of_fold(data, epochs, size, seed, folds=5):
    """Class probabilities of every example by networks that never saw it."""
    rng = np.random.default_rng(seed)
    fold = rng.permutation(len(data.x)) % folds
    probabilities, seconds = np.zeros((len(fold), data.classes)), 0.0
    for k in range(folds):
        loss = LOSSES["cross-entropy"](len(fold))
        rows = np.flatnonzero(fold != k)
        model, more = train(loss, data, epochs, size, seed, rows=rows)
        logits = _logits(model, data.x[fold == k])
        logits = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities[fold == k] = logits / logits.sum(axis=1, keepdims=True)
        seconds += more
    return probabilities, seconds


def cleanlab_finds(probabilities, data):
    """What cleanlab makes of out-of-fold probabilities."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    quality = get_label_quality_scores(data.given, probabilities)
    issues = find_label_issues(data.given, probabilities)
    return {
        "precision": average_precision(-quality, data.wrong),
        "found": int(issues.sum()),
        "wrong": int(data.wrong.sum()),
    }


def _logits(model, x):
    return model.predict(standardised(x), batch_size=1000, verbose=0)


def accuracy(model, data):
    found = _logits(model, data.x_test).argmax(axis=1)
    return float(np.mean(found == data.y_test))


def margins(logits, y):
    rows = np.arange(len(y))
    own, others = logits[rows, y], logits.copy()
    others[rows, y] = -np.inf
    return own - others.max(axis=1)


def average_precision(score, wrong):
    """Mean precision over the places of the wrong labels in the ranking."""
    if not wrong.any():
        return None
    hits = wrong[np.argsort(-score, kind="stable")]
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision[hits].mean())
