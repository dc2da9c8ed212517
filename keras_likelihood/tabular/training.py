"""Trains the members of an ensemble, each without some of the rows."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np

from keras_likelihood.layers.member_outputs import MemberOutputs
from keras_likelihood.likelihoods import LocationScale, Softmax
from keras_likelihood.likelihoods.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses import LikelihoodLoss, LocationScaleLoss
from keras_likelihood.losses.ensemble_loss import EnsembleLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.tabular.layers import TableFeatures
from keras_likelihood.tabular.network import MemberNetworks

ROUNDS = 40
"""How often the held-out rows are looked at."""


@dataclasses.dataclass
class Budget:
    """How long and how gently to train on a number of rows.

    The values were chosen on the development tables of
    `benchmarks/tabular.py`.

    Args:
        rows: number of training rows.
        epochs: passes over the rows, or `None` for as many as are usual.
    """

    rows: int
    epochs: int | None = None

    def __post_init__(self):
        steps = 2 ** round(math.log2(max(self.rows, 1) / 25))
        self.batch_size = int(np.clip(steps, 16, 256))
        if self.rows > 50_000:
            self.batch_size = 1024
        if self.epochs is None:
            each = max(1, self.rows / self.batch_size)
            self.epochs = int(np.clip(3500 / each, 3, 100))
        few = self.rows < 3000
        self.learning_rate = 1e-3 if few else 3e-3
        self.dropout = 0.2 if few else 0.0


@dataclasses.dataclass
class Folds:
    """Which rows each member of an ensemble does not train on.

    The rows are dealt into as many folds as there are members. A member
    leaves out its own fold and, if there are enough members, the next one.
    So each row has members that did not train on it, and their mixture is an
    out-of-fold prediction: cross-conformal prediction (Vovk 2015) and CV+
    (Barber et al. 2021) calibrate with it.

    Args:
        fold: the fold of each row, `(n,)`.
        members: number of members and folds.
    """

    fold: np.ndarray
    members: int

    @classmethod
    def deal(cls, rows: int, members: int, random, labels=None) -> "Folds":
        """Folds at random, with equal shares of the classes in `labels`."""
        order = random.permutation(rows)
        if labels is not None:
            order = order[np.argsort(labels[order], kind="stable")]
        fold = np.empty(rows, int)
        fold[order] = np.arange(rows) % members
        return cls(fold, members)

    def __getitem__(self, rows) -> "Folds":
        """The folds of some of the rows."""
        return Folds(self.fold[rows], self.members)

    @property
    def out(self) -> np.ndarray:
        """The members that do not train on each row, `(n, 1 or 2)`."""
        count = 2 if self.members >= 6 else 1
        return (self.fold[:, None] - np.arange(count)) % self.members

    @property
    def held(self) -> np.ndarray:
        """Whether a member does not train on a row, bool `(n, members)`."""
        found = np.zeros((len(self.fold), self.members), bool)
        np.put_along_axis(found, self.out, True, axis=1)
        return found


def build(features: TableFeatures, networks: MemberNetworks, budget: Budget):
    """A model whose units are the members, ready for training."""
    inputs = keras.Input((len(features.columns),), name="table")
    model = LikelihoodModel(inputs, networks(features(inputs)))
    steps = budget.epochs * math.ceil(budget.rows / budget.batch_size)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        max(steps, 1),
        warmup_target=budget.learning_rate,
        warmup_steps=max(1, steps // 30),
    )
    optimizer = keras.optimizers.AdamW(
        schedule, weight_decay=0.01, beta_2=0.99, clipnorm=None
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "head"])
    model.compile(optimizer, loss=loss_of(networks.likelihood))
    return model


def loss_of(likelihood) -> LikelihoodLoss:
    """The loss of one member."""
    if issubclass(likelihood, LocationScale):
        # A predicted scale would spoil the mean without it.
        return LocationScaleLoss(likelihood, beta=0.5)
    if issubclass(likelihood, Softmax):
        return LikelihoodLoss(likelihood, temperature=1.0)
    return LikelihoodLoss(likelihood)


def train(model, x, y, weight, folds: Folds, budget: Budget, random, on_round):
    """Trains all members; each keeps the epoch that is best on its held rows.

    Args:
        model: as `build` makes it.
        x: encoded rows `(n, columns)`.
        y: targets or class numbers, `(n,)`.
        weight: sample weights `(n,)`.
        folds: which rows each member does not see.
        budget: a `Budget`.
        random: a NumPy generator.
        on_round: called with the rounds done and all rounds.
    """
    targets = np.repeat(y[:, None], folds.members, axis=1)
    held = folds.held
    weights = (weight[:, None] * ~held).astype("float32")
    rounds = min(ROUNDS, budget.epochs)
    passes = np.diff(np.linspace(0, budget.epochs, rounds + 1).round())
    best = np.full(folds.members, np.inf)
    kept = None
    for number, count in enumerate(passes.astype(int)):
        rows = np.concatenate(
            [random.permutation(len(x)) for _ in range(count)]
        )
        # A batch of another size would be compiled again.
        whole = math.ceil(len(rows) / budget.batch_size) * budget.batch_size
        rows = np.resize(rows, whole)
        model.fit(
            x[rows],
            targets[rows],
            sample_weight=weights[rows],
            batch_size=budget.batch_size,
            shuffle=False,
            verbose=0,
        )
        nll = outcome_nll(model, x, targets)
        nll = np.where(np.isfinite(nll), nll, 1e30)
        found = np.average(nll, axis=0, weights=held * weight[:, None] + 1e-30)
        kept = _keep_best(model, kept, found < best)
        best = np.minimum(best, found)
        on_round(number + 1, rounds)
    for variable, value in zip(model.trainable_variables, kept, strict=True):
        variable.assign(value)


def outcome_nll(model, x, targets) -> np.ndarray:
    """NLL of each row under each member, `(n, members)`."""
    distribution = model.loss.distribution(predict_rows(model, x))
    return keras.ops.convert_to_numpy(distribution.nll(targets))


def predict_rows(model, x):
    """`predict` in large batches."""
    return model.predict(x, batch_size=batch_of(x), verbose=0)


def batch_of(x) -> int:
    """The batch size for predictions."""
    return min(4096, len(x))


def _keep_best(model, kept, better):
    now = [keras.ops.convert_to_numpy(v) for v in model.trainable_variables]
    if kept is None:
        return [value.copy() for value in now]
    for old, new in zip(kept, now, strict=True):
        old[better] = new[better]
    return kept


def out_of_fold(model, x, folds: Folds) -> Any:
    """The distribution of each row by the members that did not see it."""
    prediction, parameters = split_output(predict_rows(model, x))
    likelihood, classes = model.loss.likelihood, prediction.ndim == 3
    rows = np.arange(len(x))[:, None]
    values = [v[rows, folds.out] for v in (prediction, *parameters)]
    count = folds.out.shape[1]
    names = [p.name for p in likelihood.parameters][: len(parameters)]
    known = model.loss.parameter_values() if not parameters else {}
    if count == 1:
        single = [v[:, 0] if classes else v for v in values]
        named = dict(zip(names, single[1:], strict=True))
        return likelihood(single[0], **named, **known)
    mean = values[0].mean(axis=1, keepdims=not classes)
    flat = [v.reshape(len(x), -1) for v in values]
    named = dict(zip(["member", *names], flat, strict=True))
    return EnsembleDistribution(likelihood, components=count)(
        mean, **named, **known
    )


def joined(model) -> LikelihoodModel:
    """The trained members as one model whose output is their mixture."""
    members = model.loss.likelihood
    prediction, parameters = split_output(model.output)
    count = prediction.shape[1]
    outputs = []
    for j in range(count):
        if len(prediction.shape) == 3:
            outputs.append(prediction[:, j])
        else:
            every = (prediction, *parameters)
            outputs.append(tuple(v[:, j : j + 1] for v in every))
    together = MemberOutputs(members, name="joint_output")(outputs)
    found = LikelihoodModel(model.input, together, name="table_model")
    found.compile("adam", loss=EnsembleLoss(loss_of(members), count))
    return found
