"""What a likelihood says about each of its parameters."""

import dataclasses

from keras_likelihood.constraints import Constraint


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter of a likelihood: its name, domain and start.

    Args:
        name: the word users pass it by, such as `"scale"`.
        constraint: map from the reals to the domain.
        initial: value at which learning starts.
        includes_zero: whether a fixed value may be 0; negative ones never
            are allowed.
        neutral: whether a lone prediction means the initial value. Logits
            are those of temperature 1; no scale can be taken for granted.
    """

    name: str
    constraint: Constraint
    initial: float = 1.0
    includes_zero: bool = False
    neutral: bool = False

    def check(self, value: float) -> float:
        """Returns a fixed `value` as a float if the domain contains it."""
        value = float(value)
        if value > 0 or (value == 0 and self.includes_zero):
            return value
        bound = ">= 0" if self.includes_zero else "> 0"
        raise ValueError(f"`{self.name}` must be {bound}. Received: {value}")
