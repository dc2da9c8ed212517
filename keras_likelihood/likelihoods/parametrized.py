"""Likelihood classes created from arguments, such as `Censored(Normal)`."""

import ast
import copyreg
import inspect
from typing import Any, ClassVar

from keras_likelihood.backend.types import Tensor
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

    Your own family must define `define`. The arguments may be likelihoods,
    numbers, strings and tuples of these.

    ```python
    class Shifted(kl.likelihoods.Parametrized):
        @classmethod
        def define(cls, likelihood, *, by):
            inner = kl.likelihoods.get(likelihood)
            return {
                "likelihood": inner,
                "by": float(by),
                "parameters": inner.parameters,
                "event_rank": inner.event_rank,
            }
    ```
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
        name as a plain number, string, tuple, `Likelihood` class or `None`. In
        the name of the class, positional arguments have no keyword, and `None`
        is omitted.
        """
        raise NotImplementedError(f"{cls.__name__} must define `define`.")

    @classmethod
    def _make(cls, *args: Any, **kwargs: Any) -> Any:
        attributes = cls.define(*args, **kwargs)
        declared = inspect.signature(cls.define).parameters
        arguments = tuple((name, attributes[name]) for name in declared)
        if (cls, arguments) not in _MADE:
            given = [
                (f"{name}=" if p.kind == p.KEYWORD_ONLY else "", value)
                for (name, value), p in zip(
                    arguments, declared.values(), strict=True
                )
                if value is not None
            ]
            title = ", ".join(
                key + (v.__name__ if isinstance(v, type) else repr(v))
                for key, v in given
            )
            name = ",".join(key + _text(value) for key, value in given)
            attributes |= {
                "arguments": arguments,
                "family": cls,
                "_name": f"{cls.name()}({name})",
                "__module__": cls.__module__,
                "__doc__": cls.__doc__,
            }
            made: Any = _Family(
                f"{cls.__name__}({title})", (cls,), attributes, registered=False
            )
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

    A subclass defines `define`, which returns `likelihood`, and overrides the
    methods that change. The wrapped distribution is `self.inner`.
    """

    likelihood: ClassVar[type[Likelihood]]

    @classmethod
    def attributes_of(cls, likelihood: type[Likelihood]) -> dict[str, Any]:
        """Attributes that a class takes from its wrapped likelihood."""
        own = ("parameters", "event_rank", "is_discrete")
        names = (*own, "prediction_constraint")
        taken = {name: getattr(likelihood, name) for name in names}
        return {"likelihood": likelihood, **taken}

    @classmethod
    def require_numbers(cls, likelihood: Any) -> type[Likelihood]:
        """Returns the class of a likelihood of single numbers.

        Raises an error for classes, vectors and targets that are bounds.
        """
        found = get(likelihood)
        if (
            found.event_rank
            or found.takes_bounds
            or hasattr(found, "class_probabilities")
        ):
            raise ValueError(
                f"{cls.__name__} needs a likelihood of single numbers. "
                "`Censored` may only be the outermost one. "
                f"Received: {found.name()!r}"
            )
        return found

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
