"""What a likelihood says about each of its parameters."""

import dataclasses
import math
from collections.abc import Callable

from keras import ops

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


def as_vector(parameter, value, prediction_shape):
    """Gives a number or a vector the rank of the prediction.

    Only a parameter that is a vector is changed.

    Args:
        parameter: a `Parameter`.
        value: tensor.
        prediction_shape: the shape of the prediction, batch axis included.
    """
    if parameter.size is None or len(value.shape) > 1:
        return value
    size = parameter.size_for(prediction_shape[-1])
    if len(value.shape) == 1 and value.shape[0] != size:
        raise ValueError(
            f"`{parameter.name}` must have {size} values. "
            f"Received: shape {tuple(value.shape)}"
        )
    ones = (1,) * (len(prediction_shape) - 1)
    return ops.broadcast_to(value, (*ones, size))


def check_broadcasts(parameter, value, prediction_shape, event_rank):
    """Raises an error if a value would enlarge the prediction."""
    outcome = prediction_shape
    if event_rank:
        outcome = outcome[:-1] + (1,)
    shape, one = tuple(value.shape), 1
    if parameter.size is not None:
        one = parameter.size_for(prediction_shape[-1])
        outcome = outcome[:-1] + (outcome[-1] * one,)
    fits = len(shape) == 0 or (
        len(shape) == len(outcome)
        and all(
            s in (1, o) or s is None or o is None
            for s, o in zip(shape[:-1], outcome[:-1], strict=True)
        )
        and (shape[-1] in (one, outcome[-1], None) or outcome[-1] is None)
    )
    if not fits:
        last = f", the last {one} or" if one != 1 else " or"
        raise ValueError(
            f"`{parameter.name}` must be a scalar or have the rank of the "
            f"prediction with each axis 1{last} equal to that of "
            f"{outcome}. Received: shape {shape}"
        )
