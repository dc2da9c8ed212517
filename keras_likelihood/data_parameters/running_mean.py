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

    def __post_init__(self):
        if not 0 < self.rate <= 1:
            raise ValueError(
                "`learning_rate` of a running mean must be in (0, 1]. "
                f"Received: {self.rate}"
            )

    def _move(self, state, gradient, visits):
        distance = gradient / ops.maximum(visits, 1.0)[:, None]
        return state - self.rate * distance[:, None]
