"""What a likelihood says about each of its parameters."""

import dataclasses
import math
from collections.abc import Callable

from keras_likelihood.constraints import Constraint


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a likelihood: its name, domain and start.

    Args:
        name: the name of the argument, such as `"scale"`.
        constraint: map from the reals to the domain.
        initial: value at which learning starts. A vector may have a tuple,
            which is repeated or cut to its length.
        includes_zero: whether a fixed value may be 0. Negative values are
            never allowed.
        neutral: whether a prediction alone means the initial value. Logits
            alone have the temperature 1. There is no such default for a scale.
        size: length of a vector, or a function of the prediction's units
            that gives it; `None` (default) for a number. A vector takes the
            place of one number on the last axis: with one per unit that
            axis has length `units * size`.
        below: upper bound of fixed values. Defaults to no bound.
        rate: default learning rate of a `DataParameter`. A row is updated once
            in an epoch, so the rate is far higher than that of a network.
        is_followed: whether each row of a `DataParameter` is a running mean
            of what `Likelihood.followed` gives, instead of a value that
            descends the gradient. The constraint is then the identity.
    """

    name: str
    constraint: Constraint
    initial: float | tuple[float, ...] = 1.0
    includes_zero: bool = False
    neutral: bool = False
    size: int | Callable[[int], int] | None = None
    below: float = math.inf
    rate: float = 0.05
    is_followed: bool = False

    def size_for(self, units: int) -> int | None:
        """Length of the vector for a prediction with so many units."""
        return self.size(units) if callable(self.size) else self.size

    def check(self, value):
        """Returns a fixed `value` as a float if the domain contains it.

        For a vector it may be a list. The result is then a tuple.
        """
        if self.size is not None and isinstance(value, list | tuple):
            return tuple(self.check(v) for v in value)
        value = float(value)
        if self.constraint.low == -math.inf:
            if math.isfinite(value):
                return value
            raise ValueError(f"`{self.name}` must be finite. Received: {value}")
        at_least = value > 0 or (value == 0 and self.includes_zero)
        if at_least and (value < self.below or self.below == math.inf):
            return value
        bound = ">= 0" if self.includes_zero else "> 0"
        if self.below < math.inf:
            bound += f" and < {self.below}"
        raise ValueError(f"`{self.name}` must be {bound}. Received: {value}")
