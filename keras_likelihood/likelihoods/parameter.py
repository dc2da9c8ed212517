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
from keras_likelihood.likelihoods.checks import check_argument


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a likelihood: its name, domain and initial value.

    Args:
        name: name of the argument, such as `"scale"`.
        constraint: map from the reals to the domain.
        initial: initial value. For a vector it may be a tuple, which is
            repeated or cut to the length of the vector.
        includes_zero: whether a fixed value may be 0.
        neutral: whether the initial value is used if the model only outputs
            a prediction. Logits then have temperature 1.
        size: length of a vector, or a function that maps the number of units
            to it. `None` (default) for a number. With one vector per unit,
            the last axis has length `units * size`.
        below: upper bound of fixed values. Defaults to no bound.
        rate: default learning rate of a `DataParameter`, whose rows are
            updated once per epoch.
        row_rule: how the rows of a `DataParameter` are learned: by
            `"rms_prop"` (default) or `"sgd"`, or `"running_mean"` of the
            values of `Likelihood.followed`.
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
        """A fixed `value` as a float, or a tuple of floats for a vector."""
        if self.size is not None and isinstance(value, list | tuple):
            return tuple(self.check(v) for v in value)
        value = float(value)
        fits, allowed = math.isfinite(value), "finite"
        if self.constraint.low > -math.inf:
            fits = value > 0 or (value == 0 and self.includes_zero)
            allowed = ">= 0" if self.includes_zero else "> 0"
            if self.below < math.inf:
                fits = 0 < value < self.below
                allowed = f"> 0 and < {self.below}"
        check_argument(self.name, value, fits, allowed)
        return value


def fitted(p: Any, value: Any, prediction: Tensor, event_rank: int) -> Any:
    """A parameter as a scalar or a tensor that broadcasts to the prediction."""
    shape = tuple(prediction.shape)
    size = p.size_for(shape[-1]) if p.size is not None else None
    if value is p.initial and isinstance(value, tuple):
        value = tuple(np.resize(value, size or len(value)).tolist())
    if isinstance(value, numbers.Real | tuple | list):
        value = p.check(value)
    value = ops.convert_to_tensor(value, dtype=prediction.dtype)
    if size is not None and len(value.shape) < 2:
        received, allowed = tuple(value.shape), f"of shape ({size},)"
        fits = received in ((), (size,))
        check_argument(p.name, received, fits, allowed)
        value = ops.broadcast_to(value, (1,) * (len(shape) - 1) + (size,))
    if not len(value.shape):
        return value
    last = (1 if event_rank else shape[-1]) * (size or 1)
    outcome, least = (*shape[:-1], last), (1,) * (len(shape) - 1) + (size or 1,)
    received = tuple(value.shape)
    fits = len(received) == len(outcome) and all(
        r in (low, o, None) or o is None
        for r, low, o in zip(received, least, outcome, strict=True)
    )
    allowed = f"a scalar or of shape {outcome}, in which axes may be as {least}"
    check_argument(p.name, received, fits, allowed)
    return value
