"""Likelihood classes that are made from arguments: `Censored(Normal)`."""

import ast
import copyreg
import inspect
from typing import Any, ClassVar

from keras_likelihood.likelihoods.likelihood import Likelihood, get

_MADE: dict[tuple, type["Parametrized"]] = {}


class _Family(type):
    """A call on a family makes a class, and this class can be pickled."""

    arguments: Any
    _make: Any

    def __call__(cls, *args, **kwargs):
        if cls.arguments is None:
            return cls._make(*args, **kwargs)
        return super().__call__(*args, **kwargs)


class Parametrized(Likelihood, metaclass=_Family):
    """A family of likelihoods: calling it with arguments makes a class.

    The same arguments give the same class, and its name says how it was made,
    so that heads, losses and saved files can find it:

    ```python
    Censored(Normal) is Censored("normal")      # True
    Mixture(Normal, components=3).name()        # mixture(normal,components=3)
    likelihoods.get("mixture(normal,components=3)")
    ```

    A family of your own must define `define`. Its arguments are likelihoods,
    numbers, words and tuples of these.

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

    arguments: ClassVar[tuple | None] = None
    """Arguments that a class was made from, as pairs of name and value."""
    example: ClassVar[str] = "normal"
    """Arguments that make a class, for messages of errors."""
    family: ClassVar[type["Parametrized"]]
    """The family that made a class."""

    @classmethod
    def define(cls, *args, **kwargs) -> dict[str, Any]:
        """Checks the arguments and returns the attributes of a class.

        These are `parameters`, `event_rank`, and each argument under its own
        name as a plain number, word, tuple, `Likelihood` class or `None`. In
        the name of the class, a positional argument has no keyword, and one
        that is `None` is left out.
        """
        raise NotImplementedError(f"{cls.__name__} must define `define`.")

    @classmethod
    def _make(cls, *args, **kwargs):
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
    def from_arguments(cls, text: str):
        if cls.arguments is not None:
            return super().from_arguments(text)
        if not (text.startswith("(") and text.endswith(")")):
            parameters = list(inspect.signature(cls.define).parameters)
            raise ValueError(
                f"{cls.__name__} is made from the arguments {parameters}, "
                f"such as '{cls.name()}({cls.example})'. "
                f"Received: {cls.name() + text!r}"
            )
        try:
            args, kwargs = _read(text)
            inspect.signature(cls.define).bind(*args, **kwargs)
        except (SyntaxError, TypeError) as error:
            raise ValueError(
                f"{cls.__name__} cannot be made: {error}. "
                f"Received: {cls.name() + text!r}"
            ) from None
        return cls(*args, **kwargs)


def _text(value: Any) -> str:
    """An argument as text in a name. `_read` reads it."""
    if isinstance(value, tuple):
        return f"[{','.join(_text(v) for v in value)}]"
    is_likelihood = isinstance(value, type) and issubclass(value, Likelihood)
    return str(value.name() if is_likelihood else value)


def _read(text: str) -> tuple[list, dict]:
    """The arguments in a name, from their brackets on."""
    text = "_" + text
    call = ast.parse(text, mode="eval").body
    if not isinstance(call, ast.Call):
        raise SyntaxError("one pair of brackets is needed")

    def value(node):
        """The number, word or tuple that a part of a name stands for."""
        if isinstance(node, ast.List):
            return tuple(map(value, node.elts))
        try:
            return ast.literal_eval(node)
        except ValueError:
            return ast.get_source_segment(text, node)

    given = {str(word.arg): value(word.value) for word in call.keywords}
    return [value(node) for node in call.args], given


def _reduce(cls):
    return (get, (cls.name(),)) if "_name" in vars(cls) else cls.__qualname__


copyreg.pickle(_Family, _reduce)


class Wrapper(Parametrized):
    """A family whose first argument is the likelihood that it changes.

    A subclass defines `define`, which returns `likelihood`, and overrides the
    methods that change. The wrapped distribution is `self.inner`.
    """

    likelihood: ClassVar[type[Likelihood]]

    @classmethod
    def attributes_of(cls, likelihood: type[Likelihood]) -> dict[str, Any]:
        """Attributes that a wrapped class takes from the likelihood."""
        own = ("parameters", "event_rank", "is_discrete")
        names = (*own, "prediction_constraint")
        taken = {name: getattr(likelihood, name) for name in names}
        return {"likelihood": likelihood, **taken}

    @classmethod
    def require_numbers(cls, likelihood) -> type[Likelihood]:
        """The class of a likelihood, which must be one of single numbers.

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
    def inner(self) -> Likelihood:
        """The wrapped distribution, around the same prediction."""
        return self._around(self.prediction)

    def _around(self, prediction):
        """The wrapped distribution around a prediction."""
        names = [p.name for p in self.likelihood.parameters]
        values = {name: self._value(name) for name in names}
        return self.likelihood(prediction, **values)

    def _value(self, name):
        """A parameter as the wrapped distribution needs it."""
        return getattr(self, name)
