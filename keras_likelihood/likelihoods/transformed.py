"""Targets whose logarithm, root or log-odds follows a likelihood."""

import math
from typing import Any, ClassVar

from keras import ops

from keras_likelihood.likelihoods import bijector as bijectors
from keras_likelihood.likelihoods import expectations
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.robust_rho import RobustRho
from keras_likelihood.likelihoods.tails import EMPTY
from keras_likelihood.likelihoods.truncated import Truncated
from keras_likelihood.likelihoods.wrapper import Wrapper


class Transformed(Wrapper):
    """A target that follows a likelihood once it is mapped.

        nll(y) = nll of map(y) - log map'(y)

    The NLL is about the target in its own units, so that it can be compared
    with other likelihoods. The prediction is in these units too. If the
    likelihood is symmetric about its prediction, the prediction is the median.

    ```python
    Transformed("student_t", "log")
    Transformed("normal", kl.likelihoods.BoxCox(0.5))
    ```

    The parameters, such as the scale, are those of the mapped target. A
    Box-Cox map does not reach every number. The likelihood is then truncated
    to the numbers that it reaches, so that probabilities still sum to 1.

    Args:
        likelihood: a `Likelihood` of real numbers or its name.
        bijector: `"log"`, `"logit"`, a `BoxCox`, or a `Bijector` of your
            own or its name.
    """

    example = "normal,log"
    bijector: ClassVar[Any]
    mapped_likelihood: ClassVar[type[Likelihood]]

    @classmethod
    def define(cls, likelihood, bijector):
        inner: Any = cls.require_numbers(likelihood)
        if inner.is_discrete or inner.prediction_constraint is not None:
            raise ValueError(
                "Transformed needs a likelihood of real numbers. "
                f"Received: {inner.name()!r}"
            )
        bijector = bijectors.get(bijector)
        low, high = bijector.image
        is_cut = (low, high) != (-math.inf, math.inf)
        mapped = Truncated(inner, low=low, high=high) if is_cut else inner
        return {
            **cls.attributes_of(inner),
            "bijector": bijector,
            "mapped_likelihood": mapped,
            "prediction_constraint": bijector.prediction_constraint,
            "allowed": f"strictly between {bijector.low} and {bijector.high}",
        }

    @property
    def inner(self) -> Likelihood:
        """The distribution of the mapped target."""
        location = self.bijector(self.bijector.inside(self.prediction))
        values = {**self.values(), "prediction": location}
        return self.mapped_likelihood(**values)

    def nll(self, y):
        y = self._check_target(y)
        inside = self.bijector.inside(y)
        nll = self.inner.nll(self.bijector(inside))
        nll = nll - self.bijector.log_slope(inside)
        return self._or_nan(nll, self.is_possible(y))

    @classmethod
    def is_possible(cls, y):
        return (y > cls.bijector.low) & (y < cls.bijector.high)

    def log_tail(self, y, upper):
        y = self._check_target(y)
        inside = self.bijector.inside(y)
        found = self.inner.log_tail(self.bijector(inside), upper)
        end = ops.logical_or(y <= self.bijector.low, y >= self.bijector.high)
        is_empty = ops.logical_xor(upper, y <= self.bijector.low)
        return ops.where(end, ops.where(is_empty, EMPTY, 0.0), found)

    def tail_quantile(self, log_p, upper):
        return self.bijector.inverse(self.inner.tail_quantile(log_p, upper))

    def sample(self, count=None, seed=None):
        drawn = self.bijector.inverse(self.inner.sample(count, seed))
        return self.bijector.inside(drawn)

    def _moments(self):
        """By the moment function of the logarithm, or by quadrature."""
        inner, map_ = self.inner, self.bijector
        is_log = getattr(map_, "power", None) == 0
        known = is_log and isinstance(inner, LocationScale)
        once = inner.standard_log_mgf(inner.scale) if known else None
        if once is None:
            return expectations.moments(inner, map_.inverse)
        twice = inner.standard_log_mgf(2 * inner.scale) - 2 * once
        mean = map_.inside(self.prediction) * ops.exp(once)
        variance = ops.square(mean) * ops.expm1(twice)
        variance = ops.where(mean == math.inf, mean, variance)
        if not isinstance(inner, RobustRho):
            return mean, variance
        # Its moments are known where they are infinite.
        numeric = expectations.moments(inner, map_.inverse)
        return tuple(
            ops.where(known == math.inf, known, found)
            for known, found in zip((mean, variance), numeric, strict=True)
        )

    def information(self):
        """That of the mapped target times the squared slope of the map."""
        inside = self.bijector.inside(self.prediction)
        slope = ops.exp(self.bijector.log_slope(inside))
        return self.inner.information() * ops.square(slope)

    def typical_outcome(self):
        outcome = self.bijector.inverse(self.inner.typical_outcome())
        return ops.stop_gradient(outcome)

    def edges(self):
        return self.bijector.inverse(self.inner.edges())
