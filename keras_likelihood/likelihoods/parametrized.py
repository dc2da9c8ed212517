"""Likelihood classes created from arguments, such as `Censored(Normal)`."""

import ast
import copyreg
import inspect
from typing import Any, ClassVar

from keras import ops

from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.likelihood import Likelihood, get
from keras_likelihood.likelihoods.method_calls import method

_MADE: dict[Any, type["Parametrized"]] = {}


class _Family(type):
    """Metaclass: calling a family creates a class, which can be pickled."""

    arguments: Any
    _make: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if cls.arguments is None:
            return cls._make(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class Parametrized(Likelihood, metaclass=_Family):
    """A family of likelihoods: calling it with arguments creates a class.

    The same arguments give the same class. Its name contains the arguments, so
    heads, losses and saved files can find it:

    ```python
    Censored(Normal) is Censored("normal")      # True
    Mixture(Normal, components=3).name()        # mixture(normal,components=3)
    likelihoods.get("mixture(normal,components=3)")
    ```

    Your own family must define `define`, see `Wrapper`. The arguments may be
    likelihoods, numbers, strings and tuples of these.
    """

    arguments: ClassVar[tuple[Any, ...] | None] = None
    """Arguments of the class, as pairs of name and value."""
    example: ClassVar[str] = "normal"
    """Example of arguments, for error messages."""
    family: ClassVar[type["Parametrized"]]
    """The family that created the class."""

    @classmethod
    def define(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Checks the arguments and returns the attributes of a class.

        These are `parameters`, `event_rank`, and each argument under its own
        name as a plain number, string, tuple, `Likelihood` class or `None`.
        """
        raise NotImplementedError(f"{cls.__name__} must define `define`.")

    @classmethod
    def _make(cls, *args: Any, **kwargs: Any) -> Any:
        attributes = cls.define(*args, **kwargs)
        declared = inspect.signature(cls.define).parameters
        arguments = tuple((name, attributes[name]) for name in declared)
        if (cls, arguments) not in _MADE:
            keyword = inspect.Parameter.KEYWORD_ONLY
            given = ",".join(
                f"{k}={_text(v)}" if declared[k].kind == keyword else _text(v)
                for k, v in arguments
                if v is not None
            )
            attributes |= {
                "arguments": arguments,
                "family": cls,
                "_name": f"{cls.name()}({given})",
                "__module__": cls.__module__,
                "__doc__": cls.__doc__,
            }
            title = f"{cls.__name__}({given})"
            made: Any = _Family(title, (cls,), attributes, registered=False)
            _MADE[cls, arguments] = made
        return _MADE[cls, arguments]

    @classmethod
    def name(cls) -> str:
        return vars(cls).get("_name") or super().name()

    @classmethod
    def from_arguments(cls, text: str) -> Any:
        if cls.arguments is not None:
            return super().from_arguments(text)
        if not (text.startswith("(") and text.endswith(")")):
            parameters = list(inspect.signature(cls.define).parameters)
            raise ValueError(
                f"{cls.__name__} needs the arguments {parameters}, "
                f"such as '{cls.name()}({cls.example})'. "
                f"Received: {cls.name() + text!r}"
            )
        try:
            args, kwargs = _read(text)
            inspect.signature(cls.define).bind(*args, **kwargs)
        except (SyntaxError, TypeError) as error:
            raise ValueError(
                f"Cannot create {cls.__name__}: {error}. "
                f"Received: {cls.name() + text!r}"
            ) from None
        return cls(*args, **kwargs)


def _text(value: Any) -> str:
    """An argument as text in a name, the inverse of `_read`."""
    if isinstance(value, tuple):
        return f"[{','.join(_text(v) for v in value)}]"
    is_likelihood = isinstance(value, type) and issubclass(value, Likelihood)
    return str(value.name() if is_likelihood else value)


def _read(text: str) -> tuple[list[Any], dict[str, Any]]:
    """Parses the arguments in a name, including their parentheses."""
    text = "_" + text
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call):
        raise SyntaxError("one pair of brackets is needed")

    def value(node: Any) -> Any:
        """The number, string or tuple of a syntax node."""
        if isinstance(node, ast.List):
            return tuple(map(value, node.elts))
        try:
            return ast.literal_eval(node)
        except ValueError:
            return ast.get_source_segment(text, node)

    given = {str(word.arg): value(word.value) for word in call.keywords}
    return [value(node) for node in call.args], given


def _reduce(cls: Any) -> Any:
    return (get, (cls.name(),)) if "_name" in vars(cls) else cls.__qualname__


copyreg.pickle(_Family, _reduce)


class Wrapper(Parametrized):
    """A family whose first argument is the likelihood that it modifies.

    A subclass overrides the methods that change. The wrapped distribution is
    `self.inner`.

    ```python
    class Shifted(kl.likelihoods.Wrapper):
        @classmethod
        def define(cls, likelihood, *, by):
            inner = kl.likelihoods.get(likelihood)
            return {**cls.attributes_of(inner), "by": float(by)}

        def nll(self, y):
            return self.inner.nll(y - self.by)
    ```
    """

    likelihood: ClassVar[type[Likelihood]]

    @classmethod
    def attributes_of(cls, likelihood: type[Likelihood]) -> dict[str, Any]:
        """Attributes that a class takes from its wrapped likelihood."""
        names = ["parameters", "event_rank", "is_discrete", "step"]
        names.append("prediction_constraint")
        taken = {name: getattr(likelihood, name) for name in names}
        return {"likelihood": likelihood, **taken}

    @classmethod
    def require_numbers(cls, likelihood: Any) -> type[Likelihood]:
        """The class of a likelihood of single numbers, or an error."""
        inner = get(likelihood)
        is_class = hasattr(inner, "class_probabilities")
        fits = not (inner.event_rank or inner.takes_bounds or is_class)
        allowed = "of single numbers, and `Censored` may only be the outermost"
        check_argument("likelihood", inner.name(), fits, allowed)
        return inner

    @property
    @method()
    def inner(self) -> Likelihood:
        """The wrapped distribution with the same prediction."""
        return self._around(self.prediction)

    def _around(self, prediction: Tensor) -> Likelihood:
        """The wrapped distribution with another prediction."""
        names = [p.name for p in self.likelihood.parameters]
        values = {name: self._value(name) for name in names}
        return self.likelihood(prediction, **values)

    def _value(self, name: str) -> Tensor:
        """A parameter as the wrapped distribution needs it."""
        return getattr(self, name)


class MappedWrapper(Wrapper):
    """A wrapper whose outcomes are a function of the wrapped outcomes."""

    def from_inner(self, y: Tensor) -> Tensor:
        """The outcome for an outcome of the wrapped distribution."""
        return y

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        return self.from_inner(self.inner.tail_quantile(log_p, upper))

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        return self.from_inner(self.inner.sample(count, seed))

    def typical_outcome(self) -> Tensor:
        outcome = self.from_inner(self.inner.typical_outcome())
        return ops.stop_gradient(outcome)

    def edges(self) -> Tensor:
        return self.from_inner(self.inner.edges())
