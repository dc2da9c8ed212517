"""The mixture of the predictions of an ensemble."""

import dataclasses
import math
from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.types import Shape, Tensor
from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods import (
    Bernoulli,
    Parameter,
    Softmax,
    VonMises,
    get,
)
from keras_likelihood.likelihoods.checks import check_argument, check_size
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.mixture import Mixed
from keras_likelihood.likelihoods.tails import safe_log


class EnsembleDistribution(Mixed):
    """The mixture of the predictions of several models.

        nll(y) = -log sum_j w_j exp(-nll_j(y)),    w_j = 1 / components

    `predict_distribution` of a `kl.Ensemble` returns it (Lakshminarayanan et
    al. 2017). The `total` uncertainty is the sum of two parts. The `aleatoric`
    part is the noise in the targets, which more data do not reduce. The
    `epistemic` part is large where the members disagree.

    Args:
        likelihood: the likelihood of the members, or its name. Angles are not
            allowed, because their cdf depends on where the circle is cut.
        components: number of members, from 2 to 1000. Defaults to 5.
        last: weight of the last member. The others share the rest equally.
            Only for numbers and vectors. Defaults to `None`, equal weights.

    The resulting class takes

        prediction: weighted mean of the members' predictions, `(batch, ...,
            units)`. For classes it is recomputed from the mean probability.
        member: predictions of the members, concatenated along the last axis,
            `(batch, ..., components * units)`.
        **parameters: parameters of the members, in the same order.
    """

    mixed_axis = -2

    @classmethod
    def define(
        cls, likelihood: Any, *, components: int = 5, last: float | None = None
    ) -> dict[str, Any]:
        inner = get(likelihood)
        fits = not issubclass(inner, VonMises | EnsembleDistribution)
        allowed = "a likelihood of numbers, vectors or classes, and no ensemble"
        check_argument("likelihood", inner.name(), fits, allowed)
        check_size("components", components, 2)
        fits = last is None or (
            0 < last < 1 and not hasattr(inner, "class_probabilities")
        )
        check_argument("last", last, fits, "`None`, or in (0, 1) for numbers")
        # If an outcome is a vector, its length is the prediction's last axis.
        length = (lambda units: units) if inner.event_rank else None
        own = Parameter("member", Identity(), initial=0.0, size=length)

        def of_all(p: Parameter) -> Parameter:
            def size(units: int) -> int:
                return components * (p.size_for(units) or 1)

            return dataclasses.replace(p, size=size)

        attributes = cls.attributes_of(inner) | {
            "takes_bounds": inner.takes_bounds,
            "support": inner.support,
            "components": components,
            "last": last,
            "parameters": tuple(map(of_all, (own, *inner.parameters))),
        }
        if hasattr(inner, "class_probabilities"):
            attributes["class_probabilities"] = _class_probabilities
        return attributes

    def __init__(self, prediction: Tensor, **parameters: Any) -> None:
        super().__init__(prediction, **parameters)
        if issubclass(self.likelihood, Softmax | Bernoulli):
            pooled = pooled_prediction(self.inner)
            self.prediction = pooled + ops.zeros_like(self.prediction)

    @classmethod
    def target_shapes(cls, shape: Shape) -> list[Shape]:
        return cls.likelihood.target_shapes(shape)

    @classmethod
    def match_target(cls, y: Tensor, prediction: Tensor) -> Tensor:
        return cls.likelihood.match_target(y, prediction)

    def outcomes_like(self) -> Tensor:
        return self.likelihood.outcomes_like(self)

    @property
    def inner(self) -> Any:
        """The members, on an axis before the units."""
        *batch, units = tuple(ops.shape(self.prediction))
        shape = (*batch, self.components, units)
        return self._around(ops.broadcast_to(self._value("member"), shape))

    @property
    @method()
    def members(self) -> list[Any]:
        """The predicted distribution of each member."""
        values = self.inner.values().items()
        return [
            self.likelihood(**{name: v[..., j, :] for name, v in values})
            for j in range(self.components)
        ]

    @method()
    def log_weights(self, axis: int = -1) -> Tensor:
        last = 1 / self.components if self.last is None else self.last
        others = math.log((1 - last) / (self.components - 1))
        weights = np.full((self.components,) + (1,) * (-1 - axis), others)
        weights[-1] = math.log(last)
        return ops.convert_to_tensor(weights, dtype=self.prediction.dtype)

    def repeated_target(self, y: Tensor) -> Tensor:
        # Further first axes are draws, unless targets are class numbers.
        axis = len(y.shape) - 1 - self.takes_bounds
        if issubclass(self.likelihood, Softmax):
            axis = len(self.prediction.shape) - 1
        y = ops.expand_dims(y, axis)
        return ops.repeat(y, self.components, axis=axis)

    def cdf_below(self, y: Tensor) -> Tensor:
        below = self.inner.cdf_below(self.repeated_target(y))
        return ops.sum(ops.exp(self.log_weights(-2)) * below, axis=-2)

    def averaged(self, values: Tensor, keepdims: bool = False) -> Tensor:
        # Values such as class probabilities may have further axes at the end.
        axis = len(self.prediction.shape) - 1 - len(values.shape)
        weights = ops.exp(self.log_weights(axis))
        return ops.sum(weights * values, axis=axis, keepdims=keepdims)

    def information(self) -> Tensor:
        # The NLL depends on the members' predictions, not on their mean.
        raise self._undefined("information")

    @property
    @method()
    def aleatoric(self) -> Tensor:
        """Mean of the members' variances, or of their entropies for classes."""
        return self.averaged(_uncertainty(self.inner))

    @property
    @method()
    def epistemic(self) -> Tensor:
        """Variance of the members' means.

        For classes it is the mutual information of class and member.
        """
        if hasattr(self, "class_probabilities"):
            return ops.relu(self.total - self.aleatoric)
        return self.variance_of_means()

    @property
    @method()
    def total(self) -> Any:
        """Total uncertainty: the variance, or the entropy for classes."""
        return _uncertainty(self)


@method()
def _class_probabilities(self: Any) -> Tensor:
    """Mean of the members' probabilities, classes on the last axis."""
    return self.averaged(self.inner.class_probabilities())


def _uncertainty(distribution: Any) -> Tensor:
    if not hasattr(distribution, "class_probabilities"):
        return distribution.variance()
    p = distribution.class_probabilities()
    return -ops.sum(p * safe_log(p), axis=-1)


def pooled_prediction(members: Any) -> Tensor:
    """The logits of the mean probabilities of members, which are on axis -2."""
    if isinstance(members, Bernoulli):
        yes, no = (
            ops.logsumexp(-ops.softplus(logits), axis=-2)
            for logits in (-members.logits, members.logits)
        )
        return yes - no
    logs = ops.log_softmax(members.bounded_logits(), axis=-1)
    count = math.log(members.prediction.shape[-2])
    return ops.logsumexp(logs, axis=-2) - count
