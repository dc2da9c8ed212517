"""Likelihoods of transformed targets: logarithm, power or log-odds."""

import dataclasses
import math
import re
from typing import Any, ClassVar

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import AffineSigmoid, Exp
from keras_likelihood.likelihoods import quadrature
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.likelihood import Likelihood, compiled_method
from keras_likelihood.likelihoods.parametrized import MappedWrapper
from keras_likelihood.likelihoods.truncated import Truncated


@dataclasses.dataclass(frozen=True)
class Logit:
    """`log(y / (1 - y))`, for targets in (0, 1)."""

    high = 1.0
    last = 1 - 6e-8
    """The closest float32 below the end."""
    lowest_value = None
    prediction_constraint = AffineSigmoid(0.0, 1.0)

    def __call__(self, y: Tensor) -> Tensor:
        return ops.log(y) - ops.log1p(-y)

    def inverse(self, u: Tensor) -> Tensor:
        return ops.sigmoid(u)

    def log_slope(self, y: Tensor) -> Tensor:
        return -ops.log(y) - ops.log1p(-y)

    def __str__(self) -> str:
        return "logit"


@dataclasses.dataclass(frozen=True)
class BoxCox:
    """`(y^power - 1) / power`, for targets `> 0`; `log(y)` at power 0.

    Power 1 only shifts the target. Power 0.5 is the square root. Lower powers
    shorten long upper tails.

    Args:
        power: number `>= 0`.
    """

    power: float

    high: ClassVar[float] = math.inf
    last: ClassVar[float] = math.inf
    prediction_constraint: ClassVar[Exp] = Exp()

    def __post_init__(self) -> None:
        object.__setattr__(self, "power", float(self.power))
        fits = 0 <= self.power < math.inf
        check_argument("power", self.power, fits, "a finite number >= 0")

    def __call__(self, y: Tensor) -> Tensor:
        if self.power == 0:
            return ops.log(y)
        u = self.power * ops.log(y)
        # Far from 1 the logarithm has too few digits.
        found = ops.where(ops.abs(u) < 0.7, ops.expm1(u), y**self.power - 1)
        return found / self.power

    def inverse(self, u: Tensor) -> Tensor:
        if self.power == 0:
            return ops.exp(u)
        # Below the lowest value the target is at the end of its range.
        inside = clip(self.power * u, -1 + 1e-7, math.inf)
        return ops.exp(ops.log1p(inside) / self.power)

    def log_slope(self, y: Tensor) -> Tensor:
        """`log(d map(y) / dy)`."""
        return (self.power - 1) * ops.log(y)

    @property
    def lowest_value(self) -> float | None:
        """The map of 0, or `None` if it is infinite."""
        return -1 / self.power if self.power else None

    def __str__(self) -> str:
        return f"box_cox({self.power})" if self.power else "log"


def _get_bijector(identifier: Any) -> Any:
    """Returns a map, given itself or a name such as `"box_cox(0.5)"`."""
    if isinstance(identifier, BoxCox):
        return identifier
    if str(identifier) == "logit":
        return Logit()
    match = re.fullmatch(r"log|box_cox\(([0-9.e-]+)\)", str(identifier))
    allowed = "'log', 'logit', 'box_cox(power)' or a `BoxCox`"
    check_argument("bijector", identifier, match, allowed)
    return BoxCox(float(match and match[1] or 0))


class Transformed(MappedWrapper):
    """A likelihood of the target after a transformation.

        nll(y) = nll of map(y) - log map'(y)

    The NLL and the prediction are in the units of the target. If the likelihood
    is symmetric about its prediction, the prediction is the median.

    ```python
    Transformed("student_t", "log")
    Transformed("normal", kl.likelihoods.BoxCox(0.5))
    ```

    The parameters, such as the scale, refer to the transformed target. With a
    Box-Cox map the likelihood is truncated to the range of the map.

    Args:
        likelihood: a `Likelihood` of real numbers or its name.
        bijector: `"log"`, `"logit"`, or a `BoxCox` or its name.
    """

    example = "normal,log"
    bijector: ClassVar[Any]
    mapped_likelihood: ClassVar[type[Likelihood]]

    @classmethod
    def define(cls, likelihood: Any, bijector: Any) -> dict[str, Any]:
        inner: Any = cls.require_numbers(likelihood)
        is_real = not inner.is_discrete and inner.prediction_constraint is None
        allowed = "a likelihood of real numbers"
        check_argument("likelihood", inner.name(), is_real, allowed)
        bijector = _get_bijector(bijector)
        low = bijector.lowest_value
        mapped = inner if low is None else Truncated(inner, low=low)
        return cls.attributes_of(inner) | {
            "bijector": bijector,
            "mapped_likelihood": mapped,
            "prediction_constraint": bijector.prediction_constraint,
            "support": (0.0, bijector.high),
            "allowed": f"strictly between 0.0 and {bijector.high}",
        }

    def _inside(self, y: Tensor) -> Tensor:
        """`y`, moved away from the ends of the support."""
        return clip(y, 1e-37, self.bijector.last)

    @property
    def inner(self) -> Likelihood:
        """The distribution of the transformed target."""
        location = self.bijector(self._inside(self.prediction))
        values = {**self.values(), "prediction": location}
        return self.mapped_likelihood(**values)

    def nll(self, y: Tensor) -> Tensor:
        inside = self._inside(y)
        nll = self.inner.nll(self.bijector(inside))
        return nll - self.bijector.log_slope(inside)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        u = self.bijector(self._inside(y))
        return self.inner.log_tail(u, upper)

    def from_inner(self, y: Tensor) -> Tensor:
        return self.bijector.inverse(y)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        return self._inside(super().sample(count, seed))

    @compiled_method
    def _moments(self) -> tuple[Tensor, Tensor]:
        return quadrature.moments(self.inner, self.bijector.inverse)

    def information(self) -> Tensor:
        """Information of the transformed target times `map'(prediction)^2`."""
        inside = self._inside(self.prediction)
        slope = ops.exp(self.bijector.log_slope(inside))
        return self.inner.information() * ops.square(slope)
