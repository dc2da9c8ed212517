"""How the few rows of a table that a batch visits are updated."""

import dataclasses
from typing import Any

from keras import ops

from keras_likelihood.backend.operations import sums_of_equal
from keras_likelihood.backend.registration import FromArguments, serializable
from keras_likelihood.likelihoods.checks import check_argument


class RowRule:
    """An update rule of the rows of a batch and of their state.

    A row that occurs several times moves once, by the sum of its gradients.
    """

    columns: tuple[str, ...] = ("displacement",)

    def step(self, state, gradient, index, counts):
        """The new state `(batch, columns, size)` of the rows of a batch.

        Entries that do not count add nothing. The second result says of each
        whether its row stays as it was because it would not be finite.
        """
        counted = ops.where(counts[:, None], gradient, 0.0)
        summed = [counted, ops.cast(counts, "float32")]
        total, visits = sums_of_equal(summed, index)
        visited = visits > 0
        # Not finite either where the mean square would overflow.
        finite = ops.isfinite(ops.sum(ops.square(total), axis=1))
        moves = ops.logical_and(visited, finite)
        moved = self._move(state, total, visits)
        state = ops.where(moves[:, None, None], moved, state)
        return state, ops.logical_and(visited, ops.logical_not(finite))

    def _move(self, state, gradient, visits):
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class RunningMean(RowRule):
    """Moves a row by a share of its distance from what it follows.

    The gradient that it is given is that distance. A row that occurs several
    times in a batch follows their mean.
    """

    rate: float

    def __post_init__(self):
        allowed = "in (0, 1] for a running mean"
        check_argument("learning_rate", self.rate, 0 < self.rate <= 1, allowed)

    def _move(self, state, gradient, visits):
        distance = gradient / ops.maximum(visits, 1.0)[:, None]
        return state - self.rate * distance[:, None]


@serializable
@dataclasses.dataclass(frozen=True)
class SparseRMSProp(FromArguments, RowRule):
    """RMSProp for the rows of a batch.

        s <- rho s + (1 - rho) g^2
        m <- momentum m + learning_rate g / sqrt(s + epsilon)
        d <- d - m - learning_rate weight_decay d

    `d` is the displacement of the row from its initial value.

    Args:
        learning_rate: step size, `> 0`. Defaults to `None`: the default of
            the parameter, such as 0.05 for a scale.
        rho: decay of the mean square `s`, in [0, 1). Defaults to 0.9.
        epsilon: added to the mean square, `> 0`. Defaults to 1e-16: the loss
            is a mean, so the gradient of one value of a row is small and the
            usual 1e-7 would be larger than its square.
        momentum: in [0, 1). Defaults to 0, which needs no state.
        weight_decay: pull towards the initial value, `>= 0`. Defaults to 0.
        clipnorm: largest 2-norm of a batch's whole gradient, or `None`.
    """

    learning_rate: float | None = None
    rho: float = 0.9
    epsilon: float = 1e-16
    momentum: float = 0.0
    weight_decay: float = 0.0
    clipnorm: float | None = None

    def __post_init__(self):
        rate, clip = self.learning_rate, self.clipnorm
        for name, fits, allowed in (
            ("learning_rate", rate is None or rate > 0, "> 0 or None"),
            ("rho", 0 <= self.rho < 1, "in [0, 1)"),
            ("epsilon", self.epsilon > 0, "> 0"),
            ("momentum", 0 <= self.momentum < 1, "in [0, 1)"),
            ("weight_decay", self.weight_decay >= 0, ">= 0"),
            ("clipnorm", clip is None or clip > 0, "> 0 or None"),
        ):
            check_argument(name, getattr(self, name), fits, allowed)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """What a row keeps for each of its values."""
        momentum = ("momentum",) if self.momentum else ()
        return ("displacement", "mean_square", *momentum)

    def _move(self, state, gradient, visits):
        rate: Any = self.learning_rate
        if self.clipnorm is not None:
            energy = ops.sum(ops.square(gradient), axis=1)
            # One row that is not finite must not affect the others, and a row
            # counts once, however often it occurs.
            known = ops.logical_and(visits > 0, ops.isfinite(energy))
            shares = ops.where(known, energy, 0.0) / ops.maximum(visits, 1.0)
            norm = ops.maximum(ops.sqrt(ops.sum(shares)), self.clipnorm)
            gradient = gradient * (self.clipnorm / norm)
        value, square, *velocity = ops.unstack(state, len(self.columns), axis=1)
        square = self.rho * square + (1 - self.rho) * ops.square(gradient)
        move = rate * gradient / ops.sqrt(square + self.epsilon)
        if velocity:
            velocity = [move := self.momentum * velocity[0] + move]
        if self.weight_decay:
            move = move + rate * self.weight_decay * value
        return ops.stack([value - move, square, *velocity], axis=1)
