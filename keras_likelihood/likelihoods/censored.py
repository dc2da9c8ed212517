"""Likelihoods of censored targets."""

from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.likelihoods.checks import as_numbers, check_argument, fits
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parametrized import MappedWrapper
from keras_likelihood.likelihoods.tails import log_probability


class Censored(MappedWrapper):
    """A likelihood for targets of which some are only known by bounds.

    A target is a pair `(lower, upper)`. With F the cdf of the likelihood:

        lower == upper              exact            nll(y)
        lower == -inf               at most upper    -log F(upper)
        upper == inf                above lower      -log (1 - F(lower))
        otherwise                   between          -log (F(upper) - F(lower))

    `kl.censored` creates these targets from survival times and events, from
    detection limits or from bounds. If outcomes are counts, an outcome may
    equal `upper` but not `lower`.

    ```python
    survival = kl.likelihoods.Censored("weibull")
    outputs = kl.layers.LikelihoodHead(survival, 1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.LikelihoodLoss(survival))
    model.fit(x, kl.censored(time, event=event))
    ```

    Methods without targets, such as `mean` and `quantile`, are the methods of
    the likelihood.

    Args:
        likelihood: a `Likelihood` of numbers or its name. It needs a `cdf`.
    """

    takes_bounds = True

    @classmethod
    def define(cls, likelihood: Any) -> dict[str, Any]:
        inner = cls.require_numbers(likelihood)
        return {**cls.attributes_of(inner), "support": inner.support}

    def nll(self, y: Tensor) -> Tensor:
        """Negative log-likelihood of bounds `(..., 2)` or of exact targets.

        It is NaN where `lower > upper`.
        """
        low, high = y[..., 0], y[..., 1]
        exact = low == high
        finite = ops.logical_and(exact, ops.isfinite(low))
        inner = self.inner
        density = inner.nll(ops.where(finite, low, inner.typical_outcome()))
        nll = ops.where(exact, density, -log_probability(inner, low, high))
        return self._or_nan(nll, ops.logical_or(finite, low < high))

    @classmethod
    def target_shapes(cls, shape: Shape) -> list[Shape]:
        return [(*shape, 2), shape]

    @classmethod
    def is_possible(cls, y: Tensor, shape: Shape) -> Any:
        # Only NaN differs from itself.
        return y == y

    @classmethod
    def match_target(cls, y: Tensor, prediction: Tensor) -> Tensor:
        """Bounds, `(batch, ..., units, 2)`."""
        exact = tuple(prediction.shape)
        y = super().match_target(y, prediction)
        if fits(y.shape[-1 - len(exact) :], (*exact, 2)):
            return y
        return ops.stack([y, y], axis=-1)

    @classmethod
    def check_targets(cls, y: Tensor, prediction_shape: Shape) -> None:
        y = cls._as_numbers(y)
        # A unit axis of length 1 may be omitted.
        least = len(prediction_shape) + (prediction_shape[-1] != 1)
        if y.ndim < least or y.shape[-1] != 2:
            cls.likelihood.check_targets(y, prediction_shape)
            return
        low, high = y[..., 0], y[..., 1]
        exact = low == high
        bad = ~np.where(exact, np.isfinite(low), low < high)
        allowed = "bounds with lower < upper, or equal and finite if exact"
        cls._refuse_targets(y, bad, allowed)
        cls.likelihood.check_targets(low[exact], prediction_shape)

    def cdf_below(self, y: Tensor) -> Tensor:
        """Probability of an outcome below `y`, or up to its lower bound."""
        low, high = y[..., 0], y[..., 1]
        below = self.inner.cdf_below(low)
        if not self.is_discrete:
            return below
        return ops.where(low == high, below, self.inner.cdf(low))

    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        return self.inner.log_tail(y[..., 1], upper)

    def mean(self) -> Tensor:
        return self.inner.mean()

    def variance(self) -> Tensor:
        return self.inner.variance()

    def information(self) -> Tensor:
        return self.inner.information()

    @method()
    def scale_exponent(self) -> Tensor:
        return self.inner.scale_exponent()

    def to_tfp(self) -> Any:
        return self.inner.to_tfp()


def censored(
    y: Tensor | None = None,
    *,
    event: Tensor | None = None,
    below: Tensor | None = None,
    above: Tensor | None = None,
    lower: Tensor | None = None,
    upper: Tensor | None = None,
) -> np.ndarray:
    """Targets for a `Censored` likelihood: pairs of bounds.

    ```python
    kl.censored(time, event=event)        # survival: event 0 is censored
    kl.censored(y, below=0.1)             # a detection limit
    kl.censored(y, below=0.0, above=1.0)  # the range of an instrument
    kl.censored(lower=a, upper=b)         # interval-censored
    ```

    Args:
        y: values, `(examples, ...)`.
        event: in the shape of `y`: 1 if the event occurred at time `y`, 0 if
            it had not occurred by then.
        below: lower limit that broadcasts with `y`. For values at or below the
            limit, the outcome is at most the limit.
        above: upper limit, for which the same holds.
        lower, upper: bounds of every outcome, instead of `y`. Equal bounds
            mean an exact outcome. `-inf` and `inf` mean no bound.

    Returns:
        Float32 array of the shape of `y` with an additional last axis of 2,
        the lower and the upper bound.

    >>> print(kl.censored([3.0, 5.0], event=[1, 0]))
    [[ 3.  3.]
     [ 5. inf]]
    """
    given = {name for name, value in locals().items() if value is not None}
    limits = [{"lower", "upper"}, {"y"}, {"y", "event"}, {"y", "below"}]
    limits += [{"y", "above"}, {"y", "below", "above"}]
    allowed = "both `lower` and `upper`, or `y`, with `event` or with `below` "
    allowed += "and `above`"
    check_argument("arguments", sorted(given), given in limits, allowed)
    if y is None:
        low, high = np.broadcast_arrays(_numbers(lower), _numbers(upper))
    elif event is not None:
        low, event = _numbers(y), np.asarray(event)
        fits = event.shape == low.shape and np.isin(event, (0, 1)).all()
        allowed = f"0 or 1, in the shape of `y`, {low.shape}"
        check_argument("event", event, fits, allowed)
        high = np.where(event.astype(bool), low, np.inf)
    else:
        y = _numbers(y)
        below, above = (
            np.broadcast_to(end if x is None else _numbers(x), y.shape)
            for x, end in ((below, -np.inf), (above, np.inf))
        )
        low = np.where(y >= above, above, np.where(y <= below, -np.inf, y))
        high = np.where(y >= above, np.inf, np.where(y <= below, below, y))
    bad = ~np.where(low == high, np.isfinite(low), low < high)
    pairs = np.stack([low, high], axis=-1)
    allowed = "pairs with lower < upper, or equal and finite"
    check_argument("bounds", pairs[bad][:3].tolist(), not bad.any(), allowed)
    return pairs.astype("float32")


def _numbers(values: Any) -> Tensor:
    return as_numbers(values, "Bounds").astype("float64")
