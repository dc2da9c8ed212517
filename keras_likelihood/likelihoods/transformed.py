"""Likelihoods of transformed targets: logarithm, power or log-odds."""

import dataclasses
import math
import re
from typing import Any, ClassVar

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import AffineSigmoid, Constraint, Exp
from keras_likelihood.likelihoods import expectations
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.likelihood import Likelihood, compiled_method
from keras_likelihood.likelihoods.parametrized import MappedWrapper
from keras_likelihood.likelihoods.truncated import Truncated

_REGISTRY: dict[str, type["Bijector"]] = {}


@dataclasses.dataclass(frozen=True)
class Bijector:
    """A smooth, increasing map `u = map(y)` of targets in (low, high).

    A subclass is a frozen dataclass whose fields are numbers. It defines
    `__call__`, `inverse` and `log_slope`. Saved files refer to it by its
    snake-case name with these numbers, such as `box_cox(0.5)`.
    """

    name: ClassVar[str]
    low: ClassVar[float] = -math.inf
    high: ClassVar[float] = math.inf
    prediction_constraint: ClassVar[Constraint | None] = None
    """Map from the reals to the range of the targets."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        _REGISTRY[cls.name] = cls

    def __call__(self, y: Tensor) -> Tensor:
        """The map, for targets strictly inside (low, high)."""
        raise NotImplementedError

    def inverse(self, u: Tensor) -> Tensor:
        raise NotImplementedError

    def log_slope(self, y: Tensor) -> Tensor:
        """`log(d map(y) / dy)`."""
        raise NotImplementedError

    @property
    def image(self) -> tuple[float, float]:
        """Ends of the range of the map."""
        return -math.inf, math.inf

    def inside(self, y: Tensor) -> Tensor:
        """`y`, moved away from the ends of (low, high)."""
        width = min(self.high - self.low, 1.0)
        low = self.low + width * 1e-7 if self.low else 1e-37
        high = self.high
        if high < math.inf:
            # The closest float32 below 1 is 6e-8 away.
            high = high - 6e-8 * max(abs(high), width)
        return clip(y, low, high)

    def __str__(self) -> str:
        numbers = ",".join(map(str, dataclasses.astuple(self)))
        return f"{self.name}({numbers})" if numbers else self.name


@dataclasses.dataclass(frozen=True)
class Logit(Bijector):
    """`log(y / (1 - y))`, for targets in (0, 1)."""

    low = 0.0
    high = 1.0
    prediction_constraint = AffineSigmoid(0.0, 1.0)

    def __call__(self, y: Tensor) -> Tensor:
        return ops.log(y) - ops.log1p(-y)

    def inverse(self, u: Tensor) -> Tensor:
        return ops.sigmoid(u)

    def log_slope(self, y: Tensor) -> Tensor:
        return -ops.log(y) - ops.log1p(-y)


@dataclasses.dataclass(frozen=True)
class BoxCox(Bijector):
    """`(y^power - 1) / power`, for targets `> 0`; `log(y)` at power 0.

    Power 1 only shifts the target. Power 0.5 is the square root. Lower powers
    shorten long upper tails.

    Args:
        power: number `>= 0`.
    """

    power: float

    low = 0.0
    prediction_constraint = Exp()

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
        # Outside of the image the target is at the end of its range.
        inside = clip(self.power * u, -1 + 1e-7, math.inf)
        return ops.exp(ops.log1p(inside) / self.power)

    def log_slope(self, y: Tensor) -> Tensor:
        return (self.power - 1) * ops.log(y)

    @property
    def image(self) -> tuple[float, float]:
        return -1 / self.power if self.power else -math.inf, math.inf

    def __str__(self) -> str:
        return super().__str__() if self.power else "log"


def _get_bijector(identifier: Any) -> Bijector:
    """Returns a `Bijector`, given itself or a name such as `"box_cox(0.5)"`."""
    if isinstance(identifier, Bijector):
        return identifier
    if identifier == "log":
        return BoxCox(0.0)
    name, _, arguments = str(identifier).partition("(")
    if name in _REGISTRY:
        try:
            numbers = arguments.removesuffix(")").split(",")
            return _REGISTRY[name](*(float(n) for n in numbers if n))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Cannot create the bijector: {error}. Received: {identifier!r}"
            ) from None
    raise ValueError(
        "A bijector must be a `Bijector` or the name of one of "
        f"{sorted(_REGISTRY)}. Received: {identifier!r}"
    )


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
        bijector: `"log"`, `"logit"`, a `BoxCox`, or your own `Bijector` or
            its name.
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
        low, high = bijector.image
        is_cut = (low, high) != (-math.inf, math.inf)
        mapped = Truncated(inner, low=low, high=high) if is_cut else inner
        return cls.attributes_of(inner) | {
            "bijector": bijector,
            "mapped_likelihood": mapped,
            "prediction_constraint": bijector.prediction_constraint,
            "support": (bijector.low, bijector.high),
            "allowed": f"strictly between {bijector.low} and {bijector.high}",
        }

    @property
    def inner(self) -> Likelihood:
        """The distribution of the transformed target."""
        location = self.bijector(self.bijector.inside(self.prediction))
        values = {**self.values(), "prediction": location}
        return self.mapped_likelihood(**values)

    def nll(self, y: Tensor) -> Tensor:
        inside = self.bijector.inside(y)
        nll = self.inner.nll(self.bijector(inside))
        return nll - self.bijector.log_slope(inside)

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        u = self.bijector(self.bijector.inside(y))
        return self.inner.log_tail(u, upper)

    def from_inner(self, y: Tensor) -> Tensor:
        return self.bijector.inverse(y)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        return self.bijector.inside(super().sample(count, seed))

    @compiled_method
    def _moments(self) -> tuple[Tensor, Tensor]:
        return expectations.moments(self.inner, self.bijector.inverse)

    def information(self) -> Tensor:
        """Information of the transformed target times `map'(prediction)^2`."""
        inside = self.bijector.inside(self.prediction)
        slope = ops.exp(self.bijector.log_slope(inside))
        return self.inner.information() * ops.square(slope)
