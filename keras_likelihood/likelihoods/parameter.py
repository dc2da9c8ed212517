"""Declarations of the parameters of a likelihood."""

import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Constraint


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a likelihood: its name, domain and initial value.

    Args:
        name: name of the argument, such as `"scale"`.
        constraint: map from the reals to the domain.
        initial: initial value. For a vector it may be a tuple, which is
            repeated or cut to the length of the vector.
        includes_zero: whether a fixed value may be 0. Negative values are
            never allowed.
        neutral: whether the initial value is used if the model only outputs
            a prediction. Logits then have temperature 1. A scale has no
            neutral value.
        size: length of a vector, or a function that maps the number of units
            to it. `None` (default) for a number. With one vector per unit,
            the last axis has length `units * size`.
        below: upper bound of fixed values. Defaults to no bound.
        rate: default learning rate of a `DataParameter`. A row is updated once
            per epoch, so its rate is far higher than the rate of a network.
        row_rule: how the rows of a `DataParameter` are learned: by
            `"rms_prop"` (default) or `"sgd"`, or `"running_mean"` of the
            values of `Likelihood.followed`. The constraint of a running mean
            is the identity.
    """

    name: str
    constraint: Constraint
    initial: float | tuple[float, ...] = 1.0
    includes_zero: bool = False
    neutral: bool = False
    size: int | Callable[[int], int] | None = None
    below: float = math.inf
    rate: float = 0.05
    row_rule: str = "rms_prop"

    def size_for(self, units: int) -> int | None:
        """Length of the vector, given the number of units."""
        return self.size(units) if callable(self.size) else self.size

    def check(self, value: Any) -> Any:
        """Returns a fixed `value` as a float if the domain contains it.

        For a vector `value` may be a list. The result is then a tuple.
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


def fitted(
    parameter: Any, value: Any, prediction: Tensor, event_rank: int
) -> Any:
    """A parameter as a scalar or a tensor that broadcasts to the prediction."""
    shape = tuple(prediction.shape)
    size = parameter.size_for(shape[-1]) if parameter.size is not None else None
    if value is parameter.initial and isinstance(value, tuple):
        value = tuple(np.resize(value, size or len(value)).tolist())
    if isinstance(value, numbers.Real | tuple | list):
        value = parameter.check(value)
    value = ops.convert_to_tensor(value, dtype=prediction.dtype)
    if size is not None and len(value.shape) < 2:
        if len(value.shape) == 1 and value.shape[0] != size:
            raise ValueError(
                f"`{parameter.name}` must have {size} values. "
                f"Received: shape {tuple(value.shape)}"
            )
        value = ops.broadcast_to(value, (1,) * (len(shape) - 1) + (size,))
    if not len(value.shape):
        return value
    outcome, one = shape[:-1] + (1,) if event_rank else shape, 1
    if size is not None:
        outcome, one = (*outcome[:-1], outcome[-1] * size), size
    least, received = (1,) * (len(shape) - 1) + (one,), tuple(value.shape)
    if len(received) != len(outcome) or not all(
        r in (low, o, None) or o is None
        for r, low, o in zip(received, least, outcome, strict=True)
    ):
        last = f", the last {one} or" if one != 1 else " or"
        raise ValueError(
            f"`{parameter.name}` must be a scalar, or have the rank of the "
            f"prediction with each axis of length 1{last} as in "
            f"{outcome}. Received: shape {received}"
        )
    return value
