"""Trains the members of an ensemble, each without some of the rows."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.gradients import value_gradient_and_others
from keras_likelihood.backend.kept_values import keeping_values
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.ensembles.ensemble import EnsembleLoss, MemberOutputs
from keras_likelihood.ensembles.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.ensembles.member_networks import MemberNetworks
from keras_likelihood.likelihoods import (
    Likelihood,
    LocationScale,
    NoisyLabels,
    Ordinal,
    Softmax,
)
from keras_likelihood.likelihoods.noisy_labels import FORGETTING
from keras_likelihood.likelihoods.output import split_output
from keras_likelihood.losses import LikelihoodLoss, LocationScaleLoss
from keras_likelihood.models import LikelihoodModel
from keras_likelihood.tabular.last_layer import refit_last_layer

BATCH = 4096
"""Batch size for prediction."""
_HELD_OUT = 1024
"""Maximum number of a member's held-out rows that judge its training."""
_WARMUP = 2
"""Rounds until the learning rate is reached."""
_FORGET_1, _FORGET_2, _EPSILON = 0.9, 0.99, 1e-7
"""Constants of Adam."""


@dataclasses.dataclass
class Settings:
    """Training settings for a number of rows; see `docs/studies/tables.md`.

    Training goes on until the last `window` of its rounds has improved the
    held-out likelihood by less than `tolerance`, or until `steps`. Then the
    learning rate falls to zero in `annealing` times as many rounds.
    """

    rows: int
    epochs: int | None = None
    tolerance: float = 0.005
    window: float = 0.4
    annealing: float = 0.3

    def __post_init__(self) -> None:
        few = self.rows < 3000
        self.batch_size = 64 if few else 256
        self.steps = 1500 if few else 1300
        if self.epochs:
            steps = self.epochs * math.ceil(self.rows / self.batch_size)
            self.steps = math.ceil(steps / (1 + self.annealing))
        self.steps_per_round = min(20 if few else 40, self.steps)
        self.hidden = (128,) * 3
        self.dropout = 0.1 if few else 0.0
        self.learning_rate = 2e-3 if few else 3e-3
        self.weight_decay = 0.1 if few else 0.01


def deal_rows(
    rows: int,
    members: int,
    random: np.random.Generator,
    labels: Array | None = None,
) -> Array:
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


def loss_of(likelihood: type[Likelihood]) -> LikelihoodLoss:
    """The loss of one member."""
    if issubclass(likelihood, LocationScale):
        # Without `beta` a predicted scale may impair the mean.
        return LocationScaleLoss(likelihood, beta=0.5)
    if issubclass(likelihood, Softmax | Ordinal):
        # The networks return logits, also for ordered classes.
        return LikelihoodLoss(Softmax, temperature=1.0)
    return LikelihoodLoss(likelihood)


class Training:
    """Trains all members; each keeps its best round on its held-out rows.

    A round is one compiled program: steps of AdamW, then the likelihood of the
    held-out rows. Every member has its own batches.

    Args:
        networks: the members, built and adapted to the targets.
        features: inputs of the networks, `(n, features)`.
        y, weight: targets and weights, `(n,)`.
        out: what `deal_rows` returns.
        settings: a `Settings`.
        random: random generator.
        label_noise: whether to train classifiers with `NoisyLabelsLoss`.
    """

    def __init__(
        self,
        networks: MemberNetworks,
        features: Array,
        y: Array,
        weight: Array,
        out: Array,
        settings: Settings,
        random: np.random.Generator,
        label_noise: bool = False,
    ) -> None:
        self.networks, self.settings, self._random = networks, settings, random
        self._loss = loss_of(networks.likelihood)
        self._weights = networks.trainable_variables
        self._decays = [
            settings.weight_decay * ("hidden" in v.name and "kernel" in v.name)
            for v in self._weights
        ]
        members = np.arange(networks.members)
        is_out = (out[:, None] == members[:, None]).any(axis=2)
        self._rows = [np.flatnonzero(~is_out[:, j]) for j in members]
        own = [random.permutation(np.flatnonzero(c)) for c in is_out.T]
        count = min(_HELD_OUT, *map(len, own))
        held_out = np.stack([rows[:count] for rows in own])
        y = y.astype("int32" if networks.classes else "float32")
        self._label_noise = label_noise
        # Every row starts with a memory, which must be positive.
        shape: Any = (len(y), networks.classes) if label_noise else (0, 1)
        memory = np.full((len(members), *shape), 1e-6, "float32")
        self._data = features, y, weight.astype("float32"), held_out
        self._round = compiled(self._train_and_judge, whole=True)
        values = [ops.convert_to_numpy(v) for v in self._weights]
        zeros = [np.zeros(v.shape, "float32") for v in values]
        self._state: Any = (np.float32(0), values, zeros, zeros, memory)
        self._best: Any = np.full(len(members), np.inf, "float32"), values

    def run(self, on_round: Callable[[int, int], None]) -> list[float]:
        """Trains, and assigns the best values to the networks.

        Returns:
            The mean held-out losses of the members after each round.
        """
        settings = self.settings
        losses: list[float] = []
        size = settings.steps_per_round
        limit = math.ceil(settings.steps / size)
        batches = self._batches()
        last, stable = 0, 0
        while not last or len(losses) < last:
            done = len(losses)
            at = done + np.arange(size) / size
            rate = np.minimum((at + 1 / size) / _WARMUP, 1.0)
            if last:
                rate = (last - at) / (last - stable)
            losses.append(self._one_round(next(batches), rate))
            done += 1
            if not last and (done >= limit or _has_converged(losses, settings)):
                stable, best = done, int(np.argmin(losses)) + 1
                if best < 0.7 * done:
                    # The later rounds overfitted.
                    count, _, *rest = self._state
                    self._state, done = (count, self._best[1], *rest), best
                last = stable + max(2, math.ceil(settings.annealing * done))
            total = last or math.ceil(limit * (1 + settings.annealing))
            on_round(len(losses), total)
        for variable, value in zip(self._weights, self._best[1], strict=True):
            variable.assign(value)
        return losses

    def refit(self) -> None:
        """Refits the last layer, see `refit_last_layer`."""
        if issubclass(self.networks.likelihood, LocationScale):
            *data, held_out = self._data
            refit_last_layer(
                self.networks, self._loss, tuple(data), self._rows, held_out
            )

    def _one_round(self, order: Array, rate: Array) -> float:
        settings, networks = self.settings, self.networks
        shape: tuple[int, ...] = (len(order), 0)
        if settings.dropout:
            # Equal on all backends, and cheap to compile.
            shape = len(order), networks.members, settings.batch_size
            shape = *shape[:1], len(networks.hidden), *shape[1:]
            shape = *shape, max(networks.hidden)
        bits = self._random.integers(256, size=shape, dtype="uint8")
        rate = (settings.learning_rate * rate).astype("float32")
        self._state, self._best, nll = self._round(
            self._state, self._best, self._data, (order, rate, bits)
        )
        return float(np.mean(np.minimum(ops.convert_to_numpy(nll), 1e6)))

    def _batches(self) -> Iterator[Array]:
        """Yields the rows of each step and member of a round."""
        settings, count = self.settings, self.networks.members
        size = settings.steps_per_round * settings.batch_size
        left = [np.zeros(0, int) for _ in range(count)]
        while True:
            for member, rows in enumerate(self._rows):
                while len(left[member]) < size:
                    more = self._random.permutation(rows)
                    left[member] = np.concatenate([left[member], more])
            rows = np.stack([of_member[:size] for of_member in left])
            left = [of_member[size:] for of_member in left]
            shape = count, settings.steps_per_round, settings.batch_size
            yield rows.reshape(shape).transpose(1, 0, 2).astype("int32")

    def _train_and_judge(
        self, state: Any, best: Any, data: Any, batches: Any
    ) -> tuple:
        """The state after the steps of a round, the best, and the losses."""
        features, y, weight, held_out = map(ops.convert_to_tensor, data)
        order, rates, bits = map(ops.convert_to_tensor, batches)

        def step(i: Tensor, state: Any) -> Any:
            count, values, m, v, memory = _unflatten(state, len(self._weights))
            rows, count = order[i], count + 1
            masks = None
            if self.settings.dropout:
                kept = round(256 * (1 - self.settings.dropout))
                masks = ops.cast(bits[i] < kept, "float32") * (256 / kept)
            x, target, counts = (
                ops.take(a, rows, axis=0) for a in (features, y, weight)
            )
            target, counts = ops.transpose(target), ops.transpose(counts)
            places = _places(rows)
            old = memory[places[:, 0], places[:, 1]] if self._label_noise else 0

            def loss(*values: Tensor) -> tuple:
                output = self.outputs(values, x, masks)
                found = self._loss.distribution(output)
                if self._label_noise:
                    shape = ops.shape(output)
                    past = ops.reshape(old, (shape[1], shape[0], shape[2]))
                    past = ops.transpose(past, (1, 0, 2))
                    found = NoisyLabels(output, memory=past)
                each = self._loss.elementwise(found, target)
                total = ops.sum(each * counts) / rows.shape[1]
                return total, {"now": found.mean()} if self._label_noise else {}

            _, gradients, others = value_gradient_and_others(loss, values)
            if self._label_noise:
                now = ops.transpose(others["now"], (1, 0, 2))
                now = ops.reshape(now, ops.shape(old))
                new = (1 - FORGETTING) * old + FORGETTING * now
                memory = ops.scatter_update(memory, places, new)
            rate_1 = rates[i] / (1 - ops.power(_FORGET_1, count))
            unbias_2 = 1 / (1 - ops.power(_FORGET_2, count))
            for at, g in enumerate(gradients):
                m[at] = _FORGET_1 * m[at] + (1 - _FORGET_1) * g
                v[at] = _FORGET_2 * v[at] + (1 - _FORGET_2) * g * g
                move = m[at] / (ops.sqrt(v[at] * unbias_2) + _EPSILON)
                decay = 1 - rates[i] * self._decays[at]
                values[at] = decay * values[at] - rate_1 * move
            return _flatten(count, values, m, v, memory)

        state = ops.fori_loop(0, order.shape[0], step, _flatten(*state))
        state = _unflatten(state, len(self._weights))
        output = self.outputs(state[1], ops.take(features, held_out, axis=0))
        target, counts = (
            ops.take(a, ops.transpose(held_out), axis=0) for a in (y, weight)
        )
        nll = self._loss.distribution(output).nll(target)
        nll = ops.sum(nll * counts, axis=0) / ops.sum(counts, axis=0)
        nll = ops.where(ops.isfinite(nll), nll, 1e30)
        is_better = ops.less(nll, best[0])[:, None, None]
        kept = [
            ops.where(is_better, new, old)
            for new, old in zip(state[1], best[1], strict=True)
        ]
        return state, (ops.minimum(nll, best[0]), kept), nll

    def outputs(
        self, values: Any, x: Tensor, masks: Tensor | None = None
    ) -> Any:
        """Outputs of the networks with given values of their weights."""
        pairs = list(zip(self._weights, values, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            return self.networks(x, masks=masks)

    def held_out(
        self,
        x: Array,
        y: Array,
        out: Array,
        evaluate: Callable[[Likelihood, Tensor], dict],
    ) -> list[dict]:
        """What `evaluate` returns for out-of-fold predictions, as arrays.

        The first dict is for the mixture of all members that did not train on
        a row, the others are for one of these members each, if there are two.
        """
        likelihood = self._loss.likelihood
        # A member is the mixture of itself and itself.
        chosen = [out, *(np.repeat(c[:, None], 2, axis=1) for c in out.T)]
        chosen = chosen[-1:] if out.shape[1] == 1 else chosen

        def run(values: Any, x: Tensor, y: Tensor, chosen: Tensor) -> dict:
            every = keras.tree.map_structure(
                lambda v: ops.concatenate([v] * count), self.outputs(values, x)
            )
            found = distribution_by(likelihood, every, chosen)
            return evaluate(found, ops.concatenate([y] * count))

        count = len(chosen)
        values = [ops.convert_to_tensor(v) for v in self._weights]
        arrays = x, y, np.concatenate(chosen).astype("int32")
        found = compiled(run)(values, *map(ops.convert_to_tensor, arrays))
        found = keras.tree.map_structure(ops.convert_to_numpy, found)
        return [
            {
                name: v[k * len(x) : (k + 1) * len(x)]
                for name, v in found.items()
            }
            for k in range(count)
        ]


def _flatten(count: Any, values: Any, m: Any, v: Any, memory: Any) -> tuple:
    return tuple(map(ops.convert_to_tensor, (count, *values, *m, *v, memory)))


def _unflatten(state: Any, size: int) -> tuple:
    count, *rest, memory = state
    parts = [list(rest[at * size : (at + 1) * size]) for at in range(3)]
    return count, *parts, memory


def _places(rows: Tensor) -> Tensor:
    """Pairs of a member and a row, for rows `(members, batch)`."""
    members = ops.arange(rows.shape[0], dtype=rows.dtype)
    members = ops.broadcast_to(members[:, None], rows.shape)
    return ops.stack([ops.ravel(members), ops.ravel(rows)], axis=1)


def _has_converged(losses: list[float], settings: Settings) -> bool:
    """Whether the last part of the rounds brought hardly any progress."""
    count = max(2, int(settings.window * len(losses)))
    if len(losses) < max(2 * count, 100 // settings.steps_per_round):
        return False
    before = np.mean(losses[-2 * count : -count])
    return bool(np.mean(losses[-count:]) > before - settings.tolerance)


def predict_rows(model: keras.Model, x: Array) -> Any:
    """`predict` in large batches."""
    with keeping_values(model):
        return model.predict(x, batch_size=BATCH, verbose=0)


def distribution_by(
    likelihood: type[Likelihood], outputs: Any, chosen: Tensor
) -> Likelihood:
    """The mixture of the `chosen` members of each row, `(n, count)`."""
    prediction, parameters = split_output(outputs)
    kind: Any = EnsembleDistribution(likelihood, components=chosen.shape[1])
    if len(prediction.shape) == 3:
        logits = ops.take_along_axis(prediction, chosen[:, :, None], axis=1)
        member = ops.reshape(logits, (chosen.shape[0], -1))
        return kind(ops.mean(logits, axis=1), member=member)
    member, *values = (
        ops.take_along_axis(v, chosen, axis=1)
        for v in (prediction, *parameters)
    )
    names = [p.name for p in likelihood.parameters]
    known = dict(zip(names, values, strict=True))
    return kind(ops.mean(member, axis=1, keepdims=True), member=member, **known)


def joined(features: keras.Layer, networks: MemberNetworks) -> LikelihoodModel:
    """The trained members as one model whose output is their mixture."""
    inputs = keras.Input((len(features.columns),), name="table")
    prediction, parameters = split_output(networks(features(inputs)))
    members = _members([prediction, *parameters])
    loss = loss_of(networks.likelihood)
    together = MemberOutputs(loss.likelihood, name="joint_output")(members)
    found = LikelihoodModel(inputs, together, name="table_model")
    found.compile("adam", loss=EnsembleLoss(loss, len(members)))
    return found


def _members(values: list) -> list:
    """Outputs of members, of `(n, members)` or `(n, members, classes)`."""
    members = range(values[0].shape[1])
    if len(values[0].shape) == 3:
        return [values[0][:, j] for j in members]
    found = [tuple(v[:, j : j + 1] for v in values) for j in members]
    return found if len(values) > 1 else [output for (output,) in found]
