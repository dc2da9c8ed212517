"""Rows that are running means of what their examples showed."""

import dataclasses

from keras import ops

from keras_likelihood.data_parameters.row_rule import RowRule


@dataclasses.dataclass(frozen=True)
class RunningMean(RowRule):
    """Moves a row by a share of its distance from what is followed.

        d <- d + rate (followed - d)

    The gradient that it is given is `d - followed`. A row that occurs
    several times in a batch follows their mean.

    Args:
        rate: share of the distance, in (0, 1].
    """

    rate: float

    slots = 1

    def __post_init__(self):
        if not 0 < self.rate <= 1:
            raise ValueError(
                "`learning_rate` of a running mean must be in (0, 1]. "
                f"Received: {self.rate}"
            )

    def step(self, state, gradient, index, counts):
        # A column of ones becomes the number of times that a row occurs.
        ones = ops.ones_like(gradient[:, :1])
        gradient = ops.concatenate([gradient, ones], axis=1)
        return super().step(state, gradient, index, counts)

    def _move(self, state, gradient):
        times = ops.maximum(gradient[:, -1:], 1.0)
        distance = gradient[:, :-1] / times
        return state - self.rate * distance[:, None]
