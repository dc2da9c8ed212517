"""Base class and registry of the likelihoods."""

import copy
import functools
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.extras import tfp_distributions
from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Array, Shape, Tensor
from keras_likelihood.constraints import Constraint
from keras_likelihood.likelihoods import checks, method_calls, quadrature
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter, fitted
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.tails import EMPTY, safe_log, smaller_tail

_REGISTRY: dict[str, type["Likelihood"]] = {}
_CRPS_LEVELS = 128
_DEEPEST = 20
"""Maximum depth of nested likelihoods in a name."""


def compiled_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declares a method of tensors, compiled once per class and shape."""

    @functools.cache
    def for_class(likelihood: Any) -> Callable[..., Any]:
        def run(values: Any, *args: Any) -> Any:
            distribution = object.__new__(likelihood)
            vars(distribution).update(values)
            return function(distribution, *args)

        return compiled(run)

    @functools.wraps(function)
    def call(self: Any, *args: Any) -> Any:
        likelihood: Any = type(self)
        return for_class(likelihood)(self.values(), *args)

    return call


def _of_possible_targets(nll: Any, self: Any, y: Tensor) -> Tensor:
    """`nll(y)`, or NaN for impossible targets and predictions."""
    is_real = self.support == (-math.inf, math.inf) and not self.is_discrete
    if self.takes_bounds or is_real:
        return nll(self, y)
    possible = self.is_possible(y, self.prediction.shape)
    value = nll(self, ops.where(possible, y, self.typical_outcome()))
    if constraint := self.prediction_constraint:
        # A constraint may stay away from 0, which is still allowed.
        p, low = self.prediction, np.floor(constraint.low)
        possible = possible & (p >= low) & (p <= constraint.high)
    return self._or_nan(value, possible)


def _inside_of_the_support(
    log_tail: Any, self: Any, y: Tensor, upper: Tensor
) -> Tensor:
    """`log_tail(y, upper)`, which is empty or whole outside of the support."""
    self._require("cdf", "cdf", "log_tail")
    if self.takes_bounds:
        return log_tail(self, y, upper)
    low, high = self.support
    below = y < low if self.is_discrete else y <= low
    outside = ops.logical_or(below, y >= high)
    # Unselected values must be finite, or the gradient is NaN.
    y = ops.where(outside, self.typical_outcome(), y)
    end = ops.where(ops.logical_xor(upper, below), EMPTY, 0.0)
    return ops.where(outside, end, log_tail(self, y, upper))


@functools.cache
def _for_the_smaller_tail(tail_quantile: Any) -> Any:
    """One program of `tail_quantile` for any tail, also an empty one."""

    @compiled_method
    def run(self: Any, log_p: Tensor, upper: Tensor) -> Tensor:
        log_p, upper = smaller_tail(log_p, upper)
        is_empty = log_p == -math.inf
        low, high = self.support
        end = ops.where(upper, high, low)
        log_p = ops.where(is_empty, math.log(0.25), log_p)
        return ops.where(is_empty, end, tail_quantile(self, log_p, upper))

    return run


class Likelihood:
    """A distribution of the target, given a prediction and parameters.

    A likelihood names its `parameters` and defines `nll`. It may also define
    `cdf`, `quantile`, `sample`, `mean`, `variance` and `information`. Defining
    a subclass registers its snake-case name, which heads, losses and saved
    files use. Half precision is computed in float32.

    Args:
        prediction: what the model predicts, `(batch, ..., units)`.
        **parameters: one value per entry of `parameters`, each a number or a
            tensor that broadcasts against `prediction` without enlarging it.
            Omitted parameters take their initial values.

    A distribution can be sliced along all axes but the last:
    `distribution[:10]`. Methods of targets also accept one number for all
    outcomes, and draws `(count, ...)` such as the result of `sample`.

    >>> y = np.array([0.0, 3.0])
    >>> kl.likelihoods.Normal(y, scale=2.0).as_numpy().cdf(y).tolist()
    [0.5, 0.5]
    """

    parameters: ClassVar[tuple[Parameter, ...]] = ()
    event_rank: ClassVar[int] = 0
    """Trailing axes that form one outcome: 0 for reals, 1 for classes."""
    is_discrete: ClassVar[bool] = False
    """Whether outcomes are multiples of `step`."""
    step: ClassVar[float] = 1.0
    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """Ends of the range of the outcomes.

    `nll`, `log_tail` and `tail_quantile` of subclasses are only called inside.
    """
    takes_bounds: ClassVar[bool] = False
    """Whether a target may be a pair of bounds, see `Censored`."""
    prediction_constraint: ClassVar[Constraint | None] = None
    """Map from the reals to the allowed predictions, which heads apply."""
    allowed: ClassVar[str] = "finite numbers"
    """The possible targets in words, for error messages."""
    prediction: Any

    if TYPE_CHECKING:
        # Each parameter is an attribute, such as `scale`.
        def __getattr__(self: Any, name: str) -> Any: ...

    def __init_subclass__(cls, registered: bool = True, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        method_calls.declare_overrides(cls)
        if not registered:
            return
        name, own = cls.name(), f"{cls.__module__}.{cls.__qualname__}"
        ours = _REGISTRY.get(name, cls)
        known = f"{ours.__module__}.{ours.__qualname__}"
        if known.startswith("keras_likelihood.") and known != own:
            raise ValueError(
                f"The name {name!r} belongs to keras_likelihood. Rename the "
                f"class, for example to My{cls.__name__}, or override its "
                f"`name()`. Received: {own} with the name {name!r}"
            )
        _REGISTRY[name] = cls

    def __init__(self, prediction: Tensor, **parameters: Any) -> None:
        x = ops.convert_to_tensor(prediction)
        is_float = keras.backend.is_float_dtype(x.dtype)
        self.prediction = x if is_float else ops.cast(x, keras.config.floatx())
        values = {p.name: p.initial for p in self.parameters} | parameters
        for name, value in values.items():
            p = self.parameter(name)
            value = fitted(p, value, self.prediction, self.event_rank)
            setattr(self, name, value)

    def values(self) -> dict[str, Any]:
        """Dictionary of the prediction and the parameters."""
        names = ["prediction", *(p.name for p in self.parameters)]
        return {name: getattr(self, name) for name in names}

    def as_numpy(self) -> Any:
        """The same distribution with NumPy attributes and results."""
        return self.map_values(ops.convert_to_numpy)

    def map_values(self, function: Callable[..., Any], **replaced: Any) -> Any:
        """Copy with `function` applied to each value not in `replaced`."""
        other = copy.copy(self)
        for name, value in self.values().items():
            if name not in replaced:
                replaced[name] = function(value)
        vars(other).update(replaced)
        return other

    def __getitem__(self, index: Any) -> Any:
        shape = tuple(self.prediction.shape)

        def chosen(value: Any) -> Any:
            if not len(value.shape):
                return value
            every = (*shape[:-1], value.shape[-1])
            module = np if isinstance(value, np.ndarray) else ops
            return module.broadcast_to(value, every)[index]

        part = self.map_values(chosen)
        if tuple(part.prediction.shape)[-1:] != shape[-1:]:
            raise IndexError(
                f"A distribution with predictions of shape {shape} must be "
                f"sliced along all axes but the last. Received: {index!r}"
            )
        return part

    def __repr__(self) -> str:
        parts = []
        for name, value in self.values().items():
            shape = tuple(value.shape)
            is_known = not shape and isinstance(value, np.ndarray)
            parts.append(f"{name}={value if is_known else shape}")
        dtype = keras.backend.standardize_dtype(self.prediction.dtype)
        return f"{type(self).__name__}({', '.join(parts)}, dtype={dtype})"

    @classmethod
    def name(cls) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def from_arguments(cls, text: str) -> type["Likelihood"]:
        """Returns the class whose name is this class's name plus `text`."""
        if text:
            raise ValueError(
                f"{cls.__name__} takes no arguments. "
                f"Received: {cls.name() + text!r}"
            )
        return cls

    @classmethod
    def parameter(cls, name: str) -> Parameter:
        """The declaration of the parameter called `name`."""
        known = {p.name: p for p in cls.parameters}
        if name not in known:
            raise ValueError(
                f"{cls.__name__} has parameters {[*known]}. Received: {name!r}"
            )
        return known[name]

    @classmethod
    def shape_of(
        cls, name: str, prediction_shape: Shape, dimension: str
    ) -> tuple[Any, ...]:
        """Shape of the parameter called `name`, without the batch axis.

        The `dimension` is `"scalar"` (one per example), `"channel"` (one per
        entry of the last axis) or `"element"` (one per outcome). For a vector
        the last axis is longer.
        """
        if len(prediction_shape) < 2:
            raise ValueError(
                "A prediction has shape (batch, ..., units). "
                f"Received: {tuple(prediction_shape)}"
            )
        inner: tuple[Any, ...] = tuple(prediction_shape[1:])
        ones = (1,) * len(inner)
        shapes = {"scalar": ones, "element": (*inner[:-1], 1)}
        if not cls.event_rank:
            channel = (*ones[:-1], inner[-1])
            shapes = {"scalar": ones, "channel": channel, "element": inner}
        allowed = f"one of {[*shapes]} for a {cls.__name__} parameter"
        checks.check_argument(
            "dimension", dimension, dimension in shapes, allowed
        )
        shape, size = shapes[dimension], cls.parameter(name).size_for(inner[-1])
        return shape if size is None else (*shape[:-1], shape[-1] * size)

    @classmethod
    def target_shapes(cls, shape: Shape) -> list[Shape]:
        """Shapes of targets for predictions of a shape, the usual one first."""
        return [shape]

    @classmethod
    def match_target(cls, y: Tensor, prediction: Tensor) -> Tensor:
        """Targets as a tensor in one of `target_shapes`.

        Methods of targets call it first. A last axis of length 1 may be
        omitted. A number is the target of all. First axes are draws, unless
        they could be a shape of labels.
        """
        y = ops.convert_to_tensor(y, dtype=prediction.dtype)
        if not len(y.shape):
            shape = cls.target_shapes(tuple(ops.shape(prediction)))[0]
            return ops.broadcast_to(y, shape)
        shapes = cls.target_shapes(tuple(prediction.shape))
        draws = cls.takes_bounds or len(shapes) == 1
        return checks.aligned(y, shapes, "Targets", draws)

    @method(targets=True, inside=_of_possible_targets)
    def nll(self, y: Tensor) -> Tensor:
        """Complete negative log-likelihood of `y`, one per outcome."""
        raise NotImplementedError

    @method(targets=True)
    def log_prob(self, y: Tensor) -> Tensor:
        """Logarithm of the density or probability of `y`: `-nll(y)`."""
        return -self.nll(y)

    @method(targets=True, by_row=True)
    def cdf(self, y: Tensor) -> Tensor:
        """Probability of an outcome of at most `y`, in the shape of `y`."""
        self._require("cdf", "log_tail")
        return ops.exp(self.log_cdf(y))

    @method(targets=True, by_row=True)
    def cdf_below(self, y: Tensor) -> Tensor:
        """Probability of an outcome below `y`, without `y` itself."""
        return self.cdf(y - self.step if self.is_discrete else y)

    @method(targets=True, by_row=True, inside=_inside_of_the_support)
    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        """Logarithm of the probability of a tail that ends at `y`.

        It is finite even if the tail is empty. The booleans `upper` broadcast
        with `y`: True for outcomes above `y`, False for at most `y`.
        """
        cdf = self.cdf(y)
        return safe_log(ops.where(upper, 1 - cdf, cdf))

    @method(targets=True, by_row=True)
    def log_cdf(self, y: Tensor) -> Tensor:
        """Logarithm of `cdf(y)`, accurate in the lower tail."""
        return self.log_tail(y, ops.convert_to_tensor(False))

    @method(targets=True, by_row=True)
    def log_survival(self, y: Tensor) -> Tensor:
        """Logarithm of `1 - cdf(y)`, accurate in the upper tail."""
        return self.log_tail(y, ops.convert_to_tensor(True))

    @method(by_row=True, levels=True)
    def quantile(self, p: Tensor) -> Tensor:
        """The value below which a fraction `p` of outcomes falls.

        Args:
            p: probability in (0, 1), a number or a tensor that broadcasts
                against the outcomes. For a list or vector of levels, such as
                `[0.1, 0.9]`, the levels are the first axis of the result.
        """
        self._require("quantile", "tail_quantile")
        upper = p > 0.5
        tail = ops.where(upper, 1 - p, p)
        # The logarithm of 0 has no gradient.
        log_p = ops.log(ops.where(tail == 0, 0.25, tail))
        return self.tail_quantile(ops.where(tail == 0, -math.inf, log_p), upper)

    @method(by_row=True, inside=lambda f, *a: _for_the_smaller_tail(f)(*a))
    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        """The value at which a tail has the probability `exp(log_p)`.

        It is the inverse of `log_tail`, accurate in both tails.
        """
        self._require("quantile", "quantile")
        p = ops.exp(log_p)
        return self.quantile(ops.where(upper, 1 - p, p))

    @method(by_row=True)
    def interval(self, coverage: float = 0.9) -> tuple[Tensor, Tensor]:
        """Bounds `(lower, upper)` of the central interval of this coverage."""
        checks.check_coverage(coverage)
        zeros = ops.zeros_like(self.outcomes_like())
        log_p = math.log((1 - coverage) / 2) + zeros
        return tuple(
            self.tail_quantile(log_p, ops.convert_to_tensor(upper))
            for upper in (False, True)
        )

    def outcomes_like(self) -> Tensor:
        """A tensor in the shape of the outcomes."""
        return self.prediction

    @method()
    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        """Draws outcomes, in the prediction's shape or `(count, ...)`."""
        return self.quantile(self._uniform(count, seed))

    def _uniform(self, count: int | None, seed: Any) -> Tensor:
        """A number in (0, 1) for each outcome."""
        shape = self._sample_shape(count)
        shape = shape[: len(shape) - self.event_rank]
        dtype = self.prediction.dtype
        uniform = keras.random.uniform(shape, dtype=dtype, seed=seed)
        # Quantiles of 0 and 1 may be infinite.
        return clip(uniform, 2.0**-24, 1 - 2.0**-24)

    @method(by_row=True)
    def mean(self) -> Tensor:
        """Expected outcome, or NaN if the distribution has no mean."""
        self._require("mean", "quantile", "tail_quantile")
        return self._moments()[0]

    @method(by_row=True)
    def variance(self) -> Tensor:
        """Variance of the outcome; infinite or NaN if there is none."""
        self._require("variance", "quantile", "tail_quantile")
        return self._moments()[1]

    @method(by_row=True)
    def std(self) -> Tensor:
        """Standard deviation of the outcome, the root of `variance()`."""
        return ops.sqrt(self.variance())

    _moments = compiled_method(quadrature.moments)
    _information = compiled_method(quadrature.information)

    @method(by_row=True)
    def information(self) -> Tensor:
        """Fisher information of the prediction.

        It is `E[(d nll / d prediction)^2]` over outcomes that follow this
        distribution. If several entries form one outcome, it is the diagonal of
        the information matrix.
        """
        self._require("information", "quantile", "tail_quantile")
        return self._information()

    @method(targets=True)
    def crps(self, y: Tensor) -> Tensor:
        """Continuous ranked probability score of `y`.

            CRPS = E|Y - y| - E|Y - Y'| / 2

        It has the unit of the targets, and smaller values are better. Without
        a closed form it is twice the mean pinball loss of 128 quantiles.
        """
        if self.event_rank or self.takes_bounds:
            raise self._undefined("crps")
        levels = [(i + 0.5) / _CRPS_LEVELS for i in range(_CRPS_LEVELS)]
        error = y - self.quantile(levels)
        shape = (-1,) + (1,) * (len(error.shape) - 1)
        p = ops.reshape(ops.convert_to_tensor(levels, error.dtype), shape)
        pinball = ops.where(error < 0, p - 1, p) * error
        return 2 * ops.sum(pinball, axis=0) / _CRPS_LEVELS

    @method()
    def followed(self, name: str) -> Tensor:
        """Values whose running mean the rows of a `DataParameter` store."""
        raise self._undefined("followed")

    @classmethod
    def check_targets(cls, y: Tensor, prediction_shape: Shape) -> None:
        """Raises a ValueError if the array `y` has impossible targets."""
        y = cls._as_numbers(y)
        with np.errstate(invalid="ignore"):
            bad = ~cls.is_possible(y, prediction_shape)
        cls._refuse_targets(y, bad, cls.allowed)

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        """Whether each target, in a tensor or an array, is possible."""
        low, high = cls.support
        if cls.is_discrete:
            # The remainder of infinity is NaN.
            return (y >= low) & (y <= high) & (y % cls.step == 0)
        return (y > low) & (y < high)

    @classmethod
    def _as_numbers(cls, y: Any) -> Array:
        array = checks.as_numbers(y, f"Targets of {cls.__name__}")
        # NumPy cannot subtract booleans.
        return array.astype("uint8") if array.dtype.kind == "b" else array

    @classmethod
    def _refuse_targets(cls, y: Tensor, bad: Array, allowed: str) -> None:
        if np.any(bad):
            raise ValueError(
                f"Targets of {cls.__name__} must be {allowed}. "
                f"Received: {np.unique(y[bad])[:5].tolist()}"
            )

    @staticmethod
    def _or_nan(nll: Tensor, possible: Tensor) -> Tensor:
        """`nll`, or NaN for impossible targets.

        Compiled code cannot raise, and a finite value would hide the error.
        """
        return nll * ops.where(possible, ops.ones_like(nll), float("nan"))

    def to_tfp(self) -> Any:
        """The same distribution from TensorFlow Probability."""
        if not hasattr(self, "_as_tfp"):
            raise self._undefined("to_tfp")
        return self._as_tfp(tfp_distributions())

    @method()
    def typical_outcome(self) -> Tensor:
        """A possible outcome in the prediction's shape, without gradient."""
        outcome = ops.stop_gradient(self.outcomes_like())
        return floor(outcome) if self.is_discrete else outcome

    @method()
    def edges(self) -> Tensor:
        """Outcomes between which the density is smooth, on the first axis."""
        return quadrature.quantile_edges(self)

    def _require(self, method: str, *names: str) -> None:
        """Raises an error if the class overrides none of the names."""
        own, base = type(self), Likelihood
        if all(getattr(own, name) is getattr(base, name) for name in names):
            raise self._undefined(method)

    def _undefined(self, method: str) -> Exception:
        return NotImplementedError(f"{type(self).__name__} has no `{method}`.")

    def _draw(self, random: Any, count: Any, *arguments: Any, seed: Any) -> Any:
        """Samples from a `keras.random` function, in the prediction's dtype."""
        shape = self._sample_shape(count)
        each = (ops.broadcast_to(a, shape) for a in arguments)
        return random(shape, *each, dtype=self.prediction.dtype, seed=seed)

    def _sample_shape(self, count: int | None) -> tuple[Any, ...]:
        shape = tuple(ops.shape(self.prediction))
        return shape if count is None else (count, *shape)


def get(identifier: Any) -> type[Likelihood]:
    """Returns a likelihood class, given the class or its snake-case name."""
    if isinstance(identifier, type) and issubclass(identifier, Likelihood):
        return identifier.from_arguments("")
    if isinstance(identifier, str) and identifier.count("(") <= _DEEPEST:
        name, bracket, arguments = identifier.partition("(")
        if name in _REGISTRY:
            return _REGISTRY[name].from_arguments(bracket + arguments)
    # Base classes do not define `parameters`.
    known = sorted(k for k, v in _REGISTRY.items() if "parameters" in vars(v))
    raise ValueError(
        "A likelihood must be a `Likelihood` subclass or one of "
        f"{known}. Received: {identifier!r}"
    )
