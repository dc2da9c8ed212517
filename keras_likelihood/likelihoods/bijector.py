"""Fixed, increasing maps of a target. Saved files name them."""

import dataclasses
import math
import re
from typing import ClassVar

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import AffineSigmoid, Constraint, Exp

_REGISTRY: dict[str, type["Bijector"]] = {}


@dataclasses.dataclass(frozen=True)
class Bijector:
    """A smooth, increasing map `u = map(y)` of targets in (low, high).

    A subclass is a frozen dataclass whose fields are numbers. It defines
    `__call__`, `inverse` and `log_slope`. Files refer to it by its snake-case
    name with these numbers, such as `box_cox(0.5)`.
    """

    name: ClassVar[str]
    low: ClassVar[float] = -math.inf
    high: ClassVar[float] = math.inf

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        _REGISTRY[cls.name] = cls

    def __call__(self, y):
        """The map, for targets strictly inside of (low, high)."""
        raise NotImplementedError

    def inverse(self, u):
        """`y` such that `map(y) = u`."""
        raise NotImplementedError

    def log_slope(self, y):
        """`log(d map(y) / dy)`."""
        raise NotImplementedError

    @property
    def image(self) -> tuple[float, float]:
        """Ends of the values that the map has."""
        return -math.inf, math.inf

    @property
    def prediction_constraint(self) -> Constraint | None:
        """Map from the reals to predictions in the range of the targets."""
        return None

    def inside(self, y):
        """`y`, moved away from the ends of the range of the map."""
        if self.low == -math.inf and self.high == math.inf:
            return y
        width = min(self.high - self.low, 1.0)
        low = self.low + width * 1e-7 if self.low else 1e-37
        high = self.high
        if high < math.inf:
            # The closest float32 below 1 is 6e-8 away.
            high = high - 6e-8 * max(abs(high), width)
        return clip(y, low, high)

    def __str__(self):
        names = [f.name for f in dataclasses.fields(self) if f.init]
        numbers = ",".join(str(getattr(self, name)) for name in names)
        return f"{self.name}({numbers})" if numbers else self.name


@dataclasses.dataclass(frozen=True)
class Logit(Bijector):
    """`log(y / (1 - y))`, for targets in (0, 1)."""

    low = 0.0
    high = 1.0

    def __call__(self, y):
        return ops.log(y) - ops.log1p(-y)

    def inverse(self, u):
        return ops.sigmoid(u)

    def log_slope(self, y):
        return -ops.log(y) - ops.log1p(-y)

    @property
    def prediction_constraint(self):
        return AffineSigmoid(0.0, 1.0)


@dataclasses.dataclass(frozen=True)
class BoxCox(Bijector):
    """`(y^power - 1) / power`, for targets `> 0`; `log(y)` at power 0.

    Power 1 only shifts the target. Power 0.5 is the square root. Lower powers
    shorten long upper tails.

    Args:
        power: any number.
    """

    power: float

    low = 0.0

    def __post_init__(self):
        object.__setattr__(self, "power", float(self.power))
        if not math.isfinite(self.power):
            raise ValueError(f"`power` must be finite. Received: {self.power}")

    def __call__(self, y):
        if self.power == 0:
            return ops.log(y)
        return ops.expm1(self.power * ops.log(y)) / self.power

    def inverse(self, u):
        if self.power == 0:
            return ops.exp(u)
        # Outside of the image the target is at the end of its range.
        inside = clip(self.power * u, -1 + 1e-7, math.inf)
        return ops.exp(ops.log1p(inside) / self.power)

    def log_slope(self, y):
        return (self.power - 1) * ops.log(y)

    def inside(self, y):
        if self.power >= 0:
            return super().inside(y)
        # The gradient of smaller values would overflow.
        return clip(y, 10.0 ** (8 / self.power), math.inf)

    @property
    def image(self):
        end = -1 / self.power if self.power else -math.inf
        return (end, math.inf) if self.power >= 0 else (-math.inf, end)

    @property
    def prediction_constraint(self):
        return Exp()


@dataclasses.dataclass(frozen=True)
class Log(BoxCox):
    """`log(y)`, for targets `> 0`."""

    power: float = dataclasses.field(default=0.0, init=False)


def get(identifier) -> Bijector:
    """Returns a bijector from itself or its name, as `"box_cox(0.5)"`."""
    if isinstance(identifier, Bijector):
        return identifier
    found = re.fullmatch(r"(\w+)(?:\((.*)\))?", str(identifier))
    if isinstance(identifier, str) and found and found[1] in _REGISTRY:
        try:
            numbers = [float(n) for n in (found[2] or "").split(",") if n]
            return _REGISTRY[found[1]](*numbers)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"The bijector cannot be made: {error}. "
                f"Received: {identifier!r}"
            ) from None
    raise ValueError(
        "A bijector must be a `Bijector` or the name of one of "
        f"{sorted(_REGISTRY)}. Received: {identifier!r}"
    )
