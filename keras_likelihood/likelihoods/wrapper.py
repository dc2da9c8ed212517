"""Likelihoods around another likelihood."""

from typing import Any, ClassVar

from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parametrized import Parametrized


class Wrapper(Parametrized):
    """A family whose first argument is the likelihood that it changes.

    A subclass defines `define`, which returns `likelihood`, and overrides the
    methods that change. The wrapped distribution is `self.inner`.
    """

    likelihood: ClassVar[type[Likelihood]]

    @classmethod
    def attributes_of(cls, likelihood: type[Likelihood]) -> dict[str, Any]:
        """Attributes that a wrapped class takes from the likelihood."""
        names = [
            *("parameters", "event_rank", "is_discrete"),
            "prediction_constraint",
        ]
        return {
            "likelihood": likelihood,
            **{name: getattr(likelihood, name) for name in names},
        }

    @classmethod
    def require_numbers(cls, likelihood: type[Likelihood]):
        """Raises an error for classes, vectors and targets that are bounds."""
        if (
            likelihood.event_rank
            or likelihood.takes_bounds
            or hasattr(likelihood, "class_probabilities")
        ):
            raise ValueError(
                f"{cls.__name__} needs a likelihood of single numbers. "
                "`Censored` may only be the outermost one. "
                f"Received: {likelihood.name()!r}"
            )

    @property
    def inner(self) -> Likelihood:
        """The wrapped distribution, around the same prediction."""
        parameters = {
            p.name: getattr(self, p.name) for p in self.likelihood.parameters
        }
        return self.likelihood(self.prediction, **parameters)


def passed_on(*names):
    """Methods of a wrapper that are those of the wrapped distribution."""

    def method(name):
        def call(self, *args, **kwargs):
            return getattr(self.inner, name)(*args, **kwargs)

        call.__name__ = name
        call.__doc__ = f"`{name}` of the wrapped distribution."
        return call

    return tuple(method(name) for name in names)
