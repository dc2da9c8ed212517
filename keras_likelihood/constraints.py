"""Smooth, invertible maps from the real line to a parameter's domain."""

import itertools
import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.registration import (
    FromArguments,
    serializable,
    snake_case,
)
from keras_likelihood.backend.types import Tensor

_HOST_TYPES = (int, float, list, tuple, np.ndarray, np.generic)


class Constraint(FromArguments):
    """A smooth, increasing map from the reals onto the interval (low, high).

    A subclass defines `call`, `inverse` and the ends of its range. It stores
    its arguments under their own names.
    """

    low: float = 0.0
    high: float = math.inf

    def __call__(self, x: Tensor) -> Tensor:
        """Maps unconstrained `x` to the domain, in the same shape and dtype."""
        raise NotImplementedError

    def inverse(self, y: Tensor) -> Tensor:
        """Maps `y` back to the reals: `constraint(constraint.inverse(y)) == y`.

        Numbers and arrays are checked against the domain and become float64.
        """
        if isinstance(y, _HOST_TYPES):
            y = np.asarray(y, dtype="float64")
            if np.all((y > self.low) & (y < self.high)):
                return self._inverse(y, np)
            raise ValueError(
                f"Values of {self!r} must be strictly between {self.low} and "
                f"{self.high}. Received: {y}"
            )
        return self._inverse(y, ops)

    def _inverse(self, y: Tensor, xp: Any) -> Tensor:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v}" for k, v in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


def _not_negative(value: float, name: str) -> float:
    if 0 <= value < math.inf:
        return float(value)
    raise ValueError(
        f"`{name}` must be a finite number >= 0. Received: {value}"
    )


def _softplus_inverse(y: Tensor, xp: Any) -> Tensor:
    # log(exp(y) - 1), in a form that is accurate for tiny and for large y.
    return y + xp.log(-xp.expm1(-y))


@serializable
class Identity(Constraint):
    """The identity, for unconstrained parameters."""

    low = -math.inf

    def __call__(self, x: Tensor) -> Tensor:
        return x

    def _inverse(self, y: Tensor, xp: Any) -> Tensor:
        return y


@serializable
class Exp(Constraint):
    """`exp(x)`, onto (0, inf)."""

    def __call__(self, x: Tensor) -> Tensor:
        return ops.exp(x)

    def _inverse(self, y: Tensor, xp: Any) -> Tensor:
        return xp.log(y)


@serializable
class Softplus(Constraint):
    """`ln(1 + e^x) + floor`, onto (floor, inf).

    Args:
        floor: lower bound of the values, `>= 0`. Defaults to 0.
    """

    def __init__(self, floor: float = 0.0) -> None:
        self.low = self.floor = _not_negative(floor, "floor")

    def __call__(self, x: Tensor) -> Tensor:
        return ops.softplus(x) + self.floor

    def _inverse(self, y: Tensor, xp: Any) -> Tensor:
        return _softplus_inverse(y - self.floor, xp)


@serializable
class ShiftedSoftplus(Constraint):
    """`(ln(1 + e^x) + s) / (ln 2 + s)`, which is 1 at x = 0.

    It grows linearly for large x and stays above `s / (ln 2 + s)` for small x,
    so gradients stay useful.

    Args:
        offset: the `s` above, `>= 0`. Defaults to 0.01.
    """

    def __init__(self, offset: float = 0.01) -> None:
        self.offset = _not_negative(offset, "offset")
        self._unit = float(np.log(2.0)) + self.offset
        self.low = self.offset / self._unit

    def __call__(self, x: Tensor) -> Tensor:
        return (ops.softplus(x) + self.offset) / self._unit

    def _inverse(self, y: Tensor, xp: Any) -> Tensor:
        return _softplus_inverse(y * self._unit - self.offset, xp)


@serializable
class AffineSigmoid(Constraint):
    """`low + (high - low) / (1 + e^-x)`, onto (low, high).

    Args:
        low: lower end of the interval. Defaults to 0.
        high: upper end, `> low`. Defaults to 1.
    """

    def __init__(self, low: float = 0.0, high: float = 1.0) -> None:
        if not -math.inf < low < high < math.inf:
            raise ValueError(
                "`low` and `high` must be finite with low < high. "
                f"Received: low={low}, high={high}"
            )
        self.low = float(low)
        self.high = float(high)

    def __call__(self, x: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * ops.sigmoid(x)

    def _inverse(self, y: Tensor, xp: Any) -> Tensor:
        return xp.log(y - self.low) - xp.log(self.high - y)


@serializable
class Increasing(Constraint):
    """Increasing rows.

    On the last axis they are

        y_0 = x_0,    y_k = y_(k-1) + ln(1 + e^x_k)
    """

    low = -math.inf

    def __call__(self, x: Tensor) -> Tensor:
        # On PyTorch `ops.cumsum` casts float64 to float32.
        first, *others = ops.unstack(x, axis=-1)
        steps = [first, *map(ops.softplus, others)]
        return ops.stack([*itertools.accumulate(steps)], axis=-1)

    def _inverse(self, y: Tensor, xp: Any) -> Tensor:
        steps = _softplus_inverse(y[..., 1:] - y[..., :-1], xp)
        return xp.concatenate([y[..., :1], steps], axis=-1)


def get(identifier: Any) -> Constraint:
    """Returns a constraint, given an instance, a class, a name or a config."""
    kinds = Identity, Exp, Softplus, ShiftedSoftplus, AffineSigmoid, Increasing
    by_name = {snake_case(kind): kind for kind in kinds}
    if isinstance(identifier, dict):
        identifier = keras.saving.deserialize_keras_object(identifier)
    elif isinstance(identifier, str):
        identifier = by_name.get(identifier, identifier)
    if isinstance(identifier, type) and issubclass(identifier, Constraint):
        return identifier()
    if isinstance(identifier, Constraint):
        return identifier
    raise ValueError(
        "A constraint must be a `Constraint`, its class or one of "
        f"{sorted(by_name)}. Received: {identifier!r}"
    )
