"""Update rules for the rows of a batch."""

import dataclasses
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_likelihood.backend.operations import sums_of_equal
from keras_likelihood.backend.registration import FromArguments, serializable
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import check_argument


class RowRule:
    """An update rule; equal rows of a batch move by the sum of gradients."""

    columns: tuple[str, ...] = ("displacement",)
    _move: Callable[[Tensor, Tensor, Tensor], Tensor]

    def step(
        self, state: Tensor, gradient: Tensor, index: Tensor, counts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The new state `(batch, columns, size)`, and a mask of skipped rows.

        Entries with `counts` False are ignored.
        """
        counted = ops.where(counts[:, None], gradient, 0.0)
        summed = [counted, ops.cast(counts, "float32")]
        total, visits = sums_of_equal(summed, index)
        visited = visits > 0
        # The square also catches overflows of the mean square.
        finite = ops.isfinite(ops.sum(ops.square(total), axis=1))
        moves = ops.logical_and(visited, finite)
        moved = self._move(state, total, visits)
        state = ops.where(moves[:, None, None], moved, state)
        return state, ops.logical_and(visited, ops.logical_not(finite))


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
        epsilon: added to the mean square, `> 0`. Defaults to 1e-16, because
            the loss is a mean, so the gradient of a single row is small.
        initial_mean_square: start of the mean square, `>= 0`. Defaults to 0.
            With 1, as in TensorFlow 1, first steps are small.
        momentum: in [0, 1). Defaults to 0, which needs no state.
        weight_decay: decay towards the initial value, `>= 0`. Defaults to 0.
    """

    learning_rate: float | None = None
    rho: float = 0.9
    epsilon: float = 1e-16
    initial_mean_square: float = 0.0
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        rate, start = self.learning_rate, self.initial_mean_square
        for name, fits, allowed in (
            ("learning_rate", rate is None or rate > 0, "> 0 or None"),
            ("rho", 0 <= self.rho < 1, "in [0, 1)"),
            ("epsilon", self.epsilon > 0, "> 0"),
            ("initial_mean_square", start >= 0, ">= 0"),
            ("momentum", 0 <= self.momentum < 1, "in [0, 1)"),
            ("weight_decay", self.weight_decay >= 0, ">= 0"),
        ):
            check_argument(name, getattr(self, name), fits, allowed)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the numbers that are stored for each value of a row."""
        momentum = ("momentum",) if self.momentum else ()
        return ("displacement", "mean_square", *momentum)

    def _move(self, state: Tensor, gradient: Tensor, visits: Tensor) -> Tensor:
        rate: Any = self.learning_rate
        value, square, *velocity = ops.unstack(state, len(self.columns), axis=1)
        # Tables start at zero. A difference from the start would be too coarse.
        square = ops.where(square > 0, square, self.initial_mean_square)
        square = self.rho * square + (1 - self.rho) * ops.square(gradient)
        move = rate * gradient / ops.sqrt(square + self.epsilon)
        if velocity:
            velocity = [move := self.momentum * velocity[0] + move]
        if self.weight_decay:
            move = move + rate * self.weight_decay * value
        return ops.stack([value - move, square, *velocity], axis=1)


@serializable
@dataclasses.dataclass(frozen=True)
class SparseSGD(FromArguments, RowRule):
    """Gradient descent for the rows of a batch.

        d <- d - learning_rate g

    `g` is the gradient of the loss of the row's own example, so the step does
    not depend on the size of the batch.

    Args:
        learning_rate: step size, `> 0`. Defaults to `None`: the default of
            the parameter.
    """

    learning_rate: float | None = None

    def __post_init__(self) -> None:
        SparseRMSProp(self.learning_rate)

    def _move(self, state: Tensor, gradient: Tensor, visits: Tensor) -> Tensor:
        rate: Any = self.learning_rate
        # The loss is a mean over the examples of the batch.
        batch = ops.cast(ops.shape(gradient)[0], gradient.dtype)
        own = gradient * (batch / ops.maximum(visits, 1.0))[:, None]
        return state - rate * own[:, None]
