"""RMSProp for the few rows of a table that a batch visits."""

import dataclasses

from keras import ops

from keras_likelihood.data_parameters.row_rule import RowRule


@dataclasses.dataclass(frozen=True)
class SparseRMSProp(RowRule):
    """RMSProp whose state belongs to a row and rests while the row does.

        s <- rho s + (1 - rho) g^2
        m <- momentum m + learning_rate g / sqrt(s + epsilon)
        d <- d - m - learning_rate weight_decay d

    `d` is the displacement of the row from its initial value. A row that is
    not in the batch changes in nothing; a row that occurs in it several
    times takes one step along the sum of its gradients.

    Args:
        learning_rate: step size, `> 0`.
        rho: decay of the mean square `s`, in [0, 1). Defaults to 0.9.
        epsilon: added to the mean square, `> 0`. Defaults to 1e-16: the loss
            is a mean, so the gradient of one value of a row is small by
            nature and a customary 1e-7 would swallow it.
        momentum: in [0, 1). Defaults to 0, which needs no state.
        weight_decay: pull towards the initial value, `>= 0`. Defaults to 0.
        clipnorm: largest 2-norm of a batch's whole gradient, or `None`.
    """

    learning_rate: float
    rho: float = 0.9
    epsilon: float = 1e-16
    momentum: float = 0.0
    weight_decay: float = 0.0
    clipnorm: float | None = None

    def __post_init__(self):
        self._check("learning_rate", self.learning_rate > 0, "> 0")
        self._check("rho", 0 <= self.rho < 1, "in [0, 1)")
        self._check("epsilon", self.epsilon > 0, "> 0")
        self._check("momentum", 0 <= self.momentum < 1, "in [0, 1)")
        self._check("weight_decay", self.weight_decay >= 0, ">= 0")
        self._check(
            "clipnorm",
            self.clipnorm is None or self.clipnorm > 0,
            "> 0 or None",
        )

    def _check(self, name, fits, allowed):
        if not fits:
            raise ValueError(
                f"`{name}` must be {allowed}. Received: {getattr(self, name)}"
            )

    @property
    def slots(self) -> int:
        """Numbers kept per value: displacement, mean square, momentum."""
        return 3 if self.momentum else 2

    def _move(self, state, gradient, visits):
        value, square, *velocity = ops.unstack(state, self.slots, axis=1)
        square = self.rho * square + (1 - self.rho) * ops.square(gradient)
        move = self.learning_rate * gradient / ops.sqrt(square + self.epsilon)
        if velocity:
            move = self.momentum * velocity[0] + move
            velocity = [move]
        if self.weight_decay:
            move = move + self.learning_rate * self.weight_decay * value
        return ops.stack([value - move, square, *velocity], axis=1)

    def _clip(self, total, visits):
        if self.clipnorm is None:
            return total
        energy = ops.sum(ops.square(total), axis=1)
        # One row that is not finite must not take the others with it, and a
        # row counts once, however often it occurs.
        known = ops.logical_and(visits > 0, ops.isfinite(energy))
        shares = ops.where(known, energy, 0.0) / ops.maximum(visits, 1.0)
        norm = ops.sqrt(ops.sum(shares))
        return total * (self.clipnorm / ops.maximum(norm, self.clipnorm))
