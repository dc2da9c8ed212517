"""What a likelihood says about each of its parameters."""

import dataclasses
import math
from collections.abc import Callable

from keras_likelihood.constraints import Constraint


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a likelihood: its name, domain and start.

    Args:
        name: the word users pass it by, such as `"scale"`.
        constraint: map from the reals to the domain.
        initial: value at which learning starts. A vector may have a tuple,
            which is repeated or cut to its length.
        includes_zero: whether a fixed value may be 0; negative ones never
            are allowed.
        neutral: whether a lone prediction means the initial value. Logits
            are those of temperature 1; no scale can be taken for granted.
        size: length of a vector, or a function of the prediction's units
            that gives it; `None` (default) for a number. A vector takes the
            place of one number on the last axis: with one per unit that
            axis has length `units * size`.
        below: fixed values stay below it. Defaults to no bound.
        rate: learning rate of a `DataParameter` that is given none. A row
            moves once an epoch, so it is far above that of a network.
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
        """Length of the vector beside a prediction of this many units."""
        return self.size(units) if callable(self.size) else self.size

    def check(self, value):
        """Returns a fixed `value` as a float if the domain contains it.

        That of a vector may be a list, which is returned as a tuple.
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
