"""Trains the members of an ensemble, each without some of the rows."""

import math
from typing import Any

import keras
import numpy as np

from keras_likelihood.data_parameters import indexed
from keras_likelihood.ensembles.ensemble import EnsembleLoss, MemberOutputs
from keras_likelihood.likelihoods import LocationScale, Ordinal, Softmax
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses import LikelihoodLoss, LocationScaleLoss
from keras_likelihood.models import LikelihoodModel

_ROUNDS = 40
"""Number of evaluations on held-out rows."""
BATCH = 4096
"""Batch size for prediction, and most rows that are used for an evaluation."""


class Budget:
    """Training settings for a number of rows; see `docs/studies/tables.md`."""

    def __init__(self, rows: int, epochs: int | None = None):
        power = round(math.log2(max(rows, 1) / 25))
        self.batch_size = 1024 if rows > 50_000 else min(max(2**power, 16), 256)
        self.steps_per_epoch = math.ceil(rows / self.batch_size)
        self.epochs = epochs or min(max(4300 // self.steps_per_epoch, 3), 150)
        few = rows < 3000
        self.hidden = (256 if few else 128,) * 3
        self.dropout = 0.1 if few else 0.0
        self.learning_rate = 1e-3 if few else 3e-3
        self.weight_decay = 0.1 if few else 0.01


def deal_rows(rows: int, members: int, random, labels=None) -> np.ndarray:
    """The members that do not train on each row, `(n, 1 or 2)`.

    A member leaves out its own fold and, if there are enough members, the next
    one. The mixture of those that leave out a row is its out-of-fold
    prediction. Folds are random, with equal shares of the classes in `labels`.
    """
    order = random.permutation(rows)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(rows, int)
    fold[order] = np.arange(rows) % members
    return (fold[:, None] - np.arange(2 if members >= 6 else 1)) % members


def build(features, networks, budget: Budget, loss=None) -> LikelihoodModel:
    """A model whose units are the members, ready for training."""
    inputs = keras.Input((len(features.columns),), name="table")
    model = LikelihoodModel(inputs, networks(features(inputs)))
    steps = budget.epochs * budget.steps_per_epoch
    rate, warmup = budget.learning_rate, max(1, steps // 30)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=rate, warmup_steps=warmup
    )
    optimizer = keras.optimizers.AdamW(
        schedule, weight_decay=budget.weight_decay, beta_2=0.99
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "head"])
    # On a CPU Keras does not use TensorFlow's compiler. With it, and with
    # several steps per call, training is faster, but takes seconds to start.
    is_slow = keras.backend.backend() == "tensorflow" and steps > 1000
    model.compile(
        optimizer,
        loss=loss or loss_of(networks.likelihood),
        jit_compile=True if is_slow else "auto",
        steps_per_execution=10 if is_slow else 1,
    )
    return model


def loss_of(likelihood) -> LikelihoodLoss:
    """The loss of one member."""
    if issubclass(likelihood, LocationScale):
        # Without `beta` a predicted scale may impair the mean.
        return LocationScaleLoss(likelihood, beta=0.5)
    if issubclass(likelihood, Softmax | Ordinal):
        # The networks return logits, also for ordered classes.
        return LikelihoodLoss(Softmax, temperature=1.0)
    return LikelihoodLoss(likelihood)


def train(model, x, y, weight, out, budget: Budget, random, on_round):
    """Trains all members; each keeps its best round on its held-out rows.

    `out` is what `deal_rows` returns.
    """
    members = np.arange(out.max() + 1)
    is_out = (out[:, None] == members[:, None]).any(axis=2)
    targets = np.repeat(y[:, None], len(members), axis=1)
    weights = (weight[:, None] * ~is_out).astype("float32")
    judged = random.permutation(len(x))[:BATCH]
    counted = weight[judged, None] * is_out[judged] + 1e-30

    def batches(order):
        """Yields batches of one size, to avoid another compilation."""
        rows = np.zeros(0, int)
        while True:
            while len(rows) < budget.batch_size:
                rows = np.concatenate([rows, order.permutation(len(x))])
            now, rows = np.split(rows, [budget.batch_size])
            y_now = targets[now]
            if model.loss.data_parameters:
                y_now = indexed(y_now, index=now)
            yield x[now], y_now, weights[now]

    def values():
        return map(keras.ops.convert_to_numpy, model.trainable_variables)

    rounds = min(_ROUNDS, budget.epochs)
    best = np.full(len(members), np.inf)
    kept = [v.copy() for v in values()]

    def keep_best(epoch, logs):
        outputs = model.predict_on_batch(x[judged])
        nll = model.loss.distribution(outputs).nll(targets[judged])
        nll = keras.ops.convert_to_numpy(nll)
        nll = np.where(np.isfinite(nll), nll, 1e30)
        nll = np.average(nll, axis=0, weights=counted)
        better = nll < best
        best[better] = nll[better]
        for old, new in zip(kept, values(), strict=True):
            old[better] = new[better]
        on_round(epoch + 1, rounds)

    together = model.steps_per_execution
    calls = budget.epochs * budget.steps_per_epoch / together
    model.fit(
        batches(np.random.default_rng(random.integers(2**31))),
        epochs=rounds,
        steps_per_epoch=math.ceil(calls / rounds) * together,
        callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=keep_best)],
        shuffle=False,
        verbose=0,
    )
    for variable, value in zip(model.trainable_variables, kept, strict=True):
        variable.assign(value)


def predict_rows(model, x):
    """`predict` in large batches."""
    return model.predict(x, batch_size=BATCH, verbose=0)


def out_of_fold(likelihood, outputs, chosen: np.ndarray) -> Any:
    """The distribution of each row by the `chosen` members, `(n, count)`."""
    prediction, parameters = split_output(outputs)
    rows = np.arange(len(chosen))[:, None]
    members = _members([v[rows, chosen] for v in (prediction, *parameters)])
    loss = loss_of(likelihood)
    if len(members) == 1:
        return loss.distribution(members[0]).as_numpy()
    together = MemberOutputs(loss.likelihood)(members)
    return EnsembleLoss(loss, len(members)).distribution(together).as_numpy()


def joined(model, likelihood) -> LikelihoodModel:
    """The trained members as one model whose output is their mixture."""
    prediction, parameters = split_output(model.output)
    members, loss = _members([prediction, *parameters]), loss_of(likelihood)
    together = MemberOutputs(loss.likelihood, name="joint_output")(members)
    found = LikelihoodModel(model.input, together, name="table_model")
    found.compile("adam", loss=EnsembleLoss(loss, len(members)))
    return found


def _members(values):
    """Outputs of members, of `(n, members)` or `(n, members, classes)`."""
    members = range(values[0].shape[1])
    if len(values[0].shape) == 3:
        return [values[0][:, j] for j in members]
    found = [tuple(v[:, j : j + 1] for v in values) for j in members]
    return found if len(values) > 1 else [output for (output,) in found]
