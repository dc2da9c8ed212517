"""Likelihoods around another likelihood."""

from typing import Any, ClassVar

from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parametrized import Parametrized


class Wrapper(Parametrized):
    """A family whose first argument is the likelihood that it changes.

    A subclass writes `define`, which returns `likelihood`, and overrides
    what the change touches. It speaks of the wrapped distribution as
    `self.inner`.
    """

    likelihood: ClassVar[type[Likelihood]]

    @classmethod
    def attributes_of(cls, likelihood: type[Likelihood]) -> dict[str, Any]:
        """What a class made by `define` takes over from the likelihood."""
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
        """Refuses classes, vectors and targets that are bounds."""
        if (
            likelihood.event_rank
            or likelihood.takes_bounds
            or hasattr(likelihood, "class_probabilities")
        ):
            raise ValueError(
                f"{cls.__name__} needs a likelihood of single numbers; "
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
