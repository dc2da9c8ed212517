"""Likelihoods around another likelihood."""

from typing import Any, ClassVar

from keras_likelihood.likelihoods.likelihood import Likelihood, get
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
