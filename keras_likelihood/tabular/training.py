"""Trains the members of an ensemble, each without some of the rows."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.gradients import value_gradient_and_others
from keras_likelihood.backend.types import Array, Tensor
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
from keras_likelihood.tabular.batches import in_batches
from keras_likelihood.tabular.last_layer import refit_last_layer

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
    annealing: float = 0.8
    hidden: tuple[int, ...] = (128,) * 3
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 0.03

    def __post_init__(self) -> None:
        self.steps = max(700, round(22 * self.rows**0.5))
        if self.epochs:
            steps = self.epochs * math.ceil(self.rows / self.batch_size)
            self.steps = math.ceil(steps / (1 + self.annealing))
        self.steps_per_round = math.ceil(self.steps / 35)

    @property
    def most_epochs(self) -> int:
        steps = self.steps * (1 + self.annealing)
        return math.ceil(steps * self.batch_size / self.rows)


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
    fold = np.empty(rows, "int32")
    fold[order] = np.arange(rows) % members
    each = np.arange(2 if members >= 6 else 1, dtype="int32")
    return (fold[:, None] - each) % members


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
        self.networks, self.settings = networks, settings
        self._loss = loss_of(networks.likelihood)
        self._weights = networks.trainable_variables
        is_hidden = [
            np.full(v.shape[1:], "hidden" in v.name and "kernel" in v.name)
            for v in self._weights
        ]
        decay = np.concatenate(list(map(np.ravel, is_hidden)))
        self._decay = (settings.weight_decay * decay).astype("float32")
        members = np.arange(networks.members)
        is_out = (out[:, None] == members[:, None]).any(axis=2)
        self._rows = [np.flatnonzero(~is_out[:, j]) for j in members]
        self._order = [
            itertools.chain.from_iterable(
                map(random.permutation, itertools.repeat(rows))
            )
            for rows in self._rows
        ]
        own = [random.permutation(np.flatnonzero(c)) for c in is_out.T]
        count = min(_HELD_OUT, *map(len, own))
        held_out = np.stack([rows[:count] for rows in own])
        y = y.astype("int32" if networks.classes else "float32")
        self._label_noise = label_noise
        # For each row and member. It starts positive.
        shape: Any = (y.size * len(members), networks.classes)
        shape = shape if label_noise else (0, 1)
        memory = np.full(shape, 1e-6, "float32")
        self._data = features, y, weight.astype("float32"), held_out
        self._round = compiled(self._train_and_judge, whole=True)
        parts = [ops.convert_to_numpy(v) for v in self._weights]
        values = np.concatenate([v.reshape(len(v), -1) for v in parts], axis=1)
        zeros = np.zeros_like(values)
        self._state: Any = (np.float32(0), values, zeros, zeros, memory)
        self._best: Any = np.full(len(members), np.inf, "float32"), values

    def run(
        self, on_round: Callable[[int, int], None]
    ) -> tuple[list[float], bool]:
        """Trains, and assigns the best values to the networks.

        Returns:
            The mean held-out losses of the members after each round, and
            whether they converged before the last of the steps.
        """
        settings = self.settings
        losses: list[float] = []
        size = settings.steps_per_round
        limit = math.ceil(settings.steps / size)
        last, stable, converged = 0, 0, False
        while not last or len(losses) < last:
            done = len(losses)
            at = done + np.arange(size) / size
            rate = np.minimum((at + 1 / size) / _WARMUP, 1.0)
            if last:
                rate = (last - at) / (last - stable)
            losses.append(self._one_round(rate))
            done += 1
            if not last:
                converged = _has_converged(losses, settings)
            if not last and (converged or done >= limit):
                stable, best = done, int(np.argmin(losses)) + 1
                if best < 0.7 * done:
                    # The later rounds overfitted.
                    count, _, *rest = self._state
                    self._state, done = (count, self._best[1], *rest), best
                last = stable + max(2, math.ceil(settings.annealing * done))
            total = last or math.ceil(limit * (1 + settings.annealing))
            on_round(len(losses), total)
        self.assign(self._best[1])
        return losses, converged

    def assign(self, values: Any) -> None:
        """Assigns `values`, with a row for each member, to the networks."""
        parts = self._parts_of(ops.convert_to_numpy(values), np.reshape)
        for variable, value in zip(self._weights, parts, strict=True):
            variable.assign(value)

    def _parts_of(
        self, values: Any, reshape: Callable[..., Any] = ops.reshape
    ) -> list[Any]:
        """The weights that `values` hold."""
        parts, start = [], 0
        for variable in self._weights:
            end = start + math.prod(variable.shape[1:])
            parts.append(reshape(values[:, start:end], variable.shape))
            start = end
        return parts

    def refit(self) -> None:
        """Refits the last layer, see `refit_last_layer`."""
        if issubclass(self.networks.likelihood, LocationScale):
            *data, held_out = self._data
            refit_last_layer(
                self.networks, self._loss, tuple(data), self._rows, held_out
            )

    def _one_round(self, rate: Array) -> float:
        """Trains for one round, and returns the mean held-out loss."""
        settings = self.settings
        steps, batch = settings.steps_per_round, settings.batch_size
        rows = [
            np.fromiter(itertools.islice(endless, steps * batch), "int32")
            for endless in self._order
        ]
        order = np.reshape(rows, (-1, steps, batch)).swapaxes(0, 1)
        rate = (settings.learning_rate * rate).astype("float32")
        self._state, self._best, nll = self._round(
            self._state, self._best, self._data, (order, rate)
        )
        return float(np.mean(np.minimum(ops.convert_to_numpy(nll), 1e6)))

    def _train_and_judge(
        self, state: Any, best: Any, data: Any, batches: Any
    ) -> tuple[Any, ...]:
        """The state after the steps of a round, the best, and the losses."""
        features, y, weight, held_out = map(ops.convert_to_tensor, data)
        order, rates = map(ops.convert_to_tensor, batches)
        decay = ops.convert_to_tensor(self._decay)
        members, noisy = order.shape[1], self._label_noise

        def step(i: Tensor, state: Any) -> Any:
            count, values, m, v, memory = state
            count = count + 1
            x = ops.take(features, order[i], axis=0)
            rows = ops.transpose(order[i])
            target, counts = (ops.take(a, rows, axis=0) for a in (y, weight))
            places = rows * members + ops.arange(members, dtype=rows.dtype)
            old = ops.take(memory, places, axis=0) if noisy else 0

            def loss(*parts: Tensor) -> tuple[Any, ...]:
                output = self.outputs(parts, x)
                found = self._loss.distribution(output)
                if noisy:
                    found = NoisyLabels(output, memory=old)
                each = self._loss.elementwise(found, target)
                total = ops.sum(each * counts) / rows.shape[0]
                return total, {"now": found.mean()} if noisy else {}

            _, gradients, others = value_gradient_and_others(
                loss, self._parts_of(values)
            )
            if noisy:
                new = (1 - FORGETTING) * old + FORGETTING * others["now"]
                memory = ops.scatter_update(
                    memory,
                    ops.reshape(places, (-1, 1)),
                    ops.reshape(new, (-1, new.shape[-1])),
                )
            g = ops.concatenate(
                [ops.reshape(g, (members, -1)) for g in gradients], axis=1
            )
            m = _FORGET_1 * m + (1 - _FORGET_1) * g
            v = _FORGET_2 * v + (1 - _FORGET_2) * g * g
            spread = ops.sqrt(v / (1 - ops.power(_FORGET_2, count)))
            move = m / (1 - ops.power(_FORGET_1, count)) / (spread + _EPSILON)
            values = values - rates[i] * (decay * values + move)
            return count, values, m, v, memory

        state = tuple(map(ops.convert_to_tensor, state))
        state = ops.fori_loop(0, order.shape[0], step, state)
        values = state[1]
        x = ops.take(features, held_out, axis=0)
        output = self.outputs(self._parts_of(values), x)
        target, counts = (
            ops.take(a, ops.transpose(held_out), axis=0) for a in (y, weight)
        )
        nll = self._loss.distribution(output).nll(target)
        nll = ops.sum(nll * counts, axis=0) / ops.sum(counts, axis=0)
        nll = ops.where(ops.isfinite(nll), nll, 1e30)
        is_better = ops.less(nll, best[0])[:, None]
        kept = ops.where(is_better, values, best[1])
        return state, (ops.minimum(nll, best[0]), kept), nll

    def outputs(self, parts: Any, x: Tensor) -> Any:
        """Outputs of the networks with given values of their weights."""
        pairs = list(zip(self._weights, parts, strict=True))
        with keras.StatelessScope(state_mapping=pairs):
            return self.networks(x)

    def held_out(
        self,
        x: Array,
        y: Array,
        out: Array,
        evaluate: Callable[[Likelihood, Tensor], dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """What `evaluate` returns for out-of-fold predictions, as arrays.

        The first dict is for the mixture of all members that did not train on
        a row, the others are for one of these members each, if there are two.
        """
        likelihood = self._loss.likelihood

        @compiled
        def run(parts: Any, *rows: Array) -> Any:
            x, y, chosen = map(ops.convert_to_tensor, rows)
            outputs = self.outputs(parts, x)
            return evaluate(distribution_by(likelihood, outputs, chosen), y)

        parts = [ops.convert_to_tensor(v) for v in self._weights]
        # A member is the mixture of itself and itself.
        chosen = [np.repeat(c[:, None], 2, axis=1) for c in out.T]
        return [
            in_batches(lambda *rows: run(parts, *rows), x, y, some)
            for some in ([out] if out.shape[1] > 1 else []) + chosen
        ]


def _has_converged(losses: list[float], settings: Settings) -> bool:
    """Whether neither mean nor best of the last rounds improved.

    One of them alone may fail to, as losses jump where the scale is small.
    """
    count = max(3, int(settings.window * len(losses)))
    if len(losses) < 2 * count:
        return False
    before, last = losses[-2 * count : -count], losses[-count:]
    return all(
        statistic(last) > statistic(before) - settings.tolerance
        for statistic in (np.mean, np.min)
    )


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


def ensemble_outputs(
    outputs: Any, process: Any = None, last: Any = None
) -> tuple[Tensor, ...]:
    """Symbolic outputs of `MemberNetworks` as those of an `Ensemble`.

    The output of a `GaussianProcess` is a further member with weight `last`.
    """
    member, parameters = split_output(outputs)
    if len(member.shape) == 2:
        mean = ops.mean(member, axis=1, keepdims=True)
        if process is None:
            return mean, member, *parameters
        own = [process[:, i : i + 1] for i in range(1 + len(parameters))]
        values = [
            ops.concatenate(pair, axis=1)
            for pair in zip([member, *parameters], own, strict=True)
        ]
        # With ops Keras takes a tensor times a number for a sparse tensor.
        share = keras.layers.Rescaling
        mean = share(1 - last)(mean) + share(last)(own[0])
        return mean, *values
    # Logarithms of the mean probabilities.
    pooled = ops.logsumexp(ops.log_softmax(member, axis=-1), axis=1)
    return (pooled - math.log(member.shape[1]),)
