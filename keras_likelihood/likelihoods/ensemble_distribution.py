"""The joint distribution of the members of an ensemble."""

import dataclasses
import math

import numpy as np
from keras import ops

from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods.checks import check_size
from keras_likelihood.likelihoods.likelihood import get
from keras_likelihood.likelihoods.mixed import Mixed
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.tails import safe_log
from keras_likelihood.likelihoods.von_mises import VonMises


class EnsembleDistribution(Mixed):
    """The mixture, in equal shares, of the predictions of several models.

        nll(y) = -log mean_j exp(-nll_j(y))

    `kl.Ensemble` makes it; `predict_distribution` returns it. It has what
    every likelihood has: `nll`, `cdf`, `quantile`, `interval`, `sample`,
    `mean`, `variance`, and for classes `class_probabilities`, which are the
    mean of the members' probabilities (Lakshminarayanan et al. 2017).

    The uncertainty has two parts, whose sum is `total`. The part `aleatoric`
    is the noise in the targets. More data do not reduce it. The part
    `epistemic` is what the model does not know. It is large where the members
    disagree.

    Args:
        likelihood: the likelihood of the members, or its name. Angles are not
            allowed, because their cdf depends on where the circle is cut.
        components: number of members, from 2 to 1000. Defaults to 5.

    A call on the class that this makes takes

        prediction: mean of the members' predictions, `(batch, ..., units)`.
            For classes it is computed again: as the logarithm of the mean
            probability, or as its log-odds for yes/no questions.
        member: predictions of the members, one member after the other on the
            last axis, `(batch, ..., components * units)`.
        **parameters: parameters of the members, in the same order.
    """

    @classmethod
    def define(cls, likelihood, *, components=5):
        inner = get(likelihood)
        if issubclass(inner, VonMises | EnsembleDistribution):
            raise ValueError(
                "The members of an ensemble must have a likelihood of "
                "numbers, vectors or classes, and not be ensembles. "
                f"Received: {inner.name()!r}"
            )
        check_size("components", components, 2)
        # The vector of one outcome is as long as the prediction's last axis.
        length = (lambda units: units) if inner.event_rank else None
        own = Parameter("member", Identity(), initial=0.0, size=length)

        def of_all(p):
            def size(units):
                return components * (p.size_for(units) or 1)

            return dataclasses.replace(p, size=size)

        attributes = {
            **cls.attributes_of(inner),
            "takes_bounds": inner.takes_bounds,
            "components": components,
            "mixed_axis": -1 if inner.event_rank else -2,
            "parameters": tuple(map(of_all, (own, *inner.parameters))),
        }
        if hasattr(inner, "class_probabilities"):
            attributes["class_probabilities"] = _class_probabilities
        return attributes

    def __init__(self, prediction, **parameters):
        super().__init__(prediction, **parameters)
        if hasattr(self.likelihood, "pooled_prediction"):
            pooled = self.inner.pooled_prediction(axis=-2)
            self.prediction = pooled + ops.zeros_like(self.prediction)

    def _check_target(self, y):
        # The targets of quantiles lack the axis of levels.
        if self.event_rank:
            return self.members[0]._check_target(y)
        return super()._check_target(y)

    def _value(self, name):
        """A parameter as `(batch, ..., components, values)`."""
        value = getattr(self, name)
        shape = tuple(ops.shape(value))
        length = value.shape[-1] // self.components
        return ops.reshape(value, (*shape[:-1], self.components, length))

    @property
    def inner(self):
        """The members, on an axis in front of that of the units."""
        *batch, units = tuple(ops.shape(self.prediction))
        shape = (*batch, self.components, units)
        return self._around(ops.broadcast_to(self._value("member"), shape))

    @property
    def members(self) -> list:
        """The distribution that each member predicts."""
        values = self.inner.values().items()
        return [
            self.likelihood(**{name: v[..., j, :] for name, v in values})
            for j in range(self.components)
        ]

    def log_weights(self):
        shape = (self.components,) + (1,) * (-1 - self.mixed_axis)
        weights = np.full(shape, -math.log(self.components))
        return ops.convert_to_tensor(weights, dtype=self.prediction.dtype)

    def repeated_target(self, y):
        y = ops.convert_to_tensor(y)
        if not len(y.shape):
            y = self._check_target(y)
        # Axes in front are those of several draws.
        is_number = not (self.event_rank or self.takes_bounds)
        axis = len(y.shape if is_number else self.prediction.shape) - 1
        y = ops.expand_dims(y, axis)
        return ops.repeat(y, self.components, axis=axis)

    def averaged(self, values, keepdims=False):
        # Values such as probabilities of classes may have axes behind.
        axis = len(self.prediction.shape) - 1
        return ops.sum(values, axis=axis, keepdims=keepdims) / self.components

    @property
    def aleatoric(self):
        """The part of the uncertainty that is noise in the targets.

        It is the mean of the members' variances. For classes it is the mean of
        their entropies.
        """
        if hasattr(self, "class_probabilities"):
            return self.averaged(_entropy(self.inner.class_probabilities()))
        return self.averaged(self.inner.variance())

    @property
    def epistemic(self):
        """The part of the uncertainty that is lack of knowledge.

        It is the variance of the members' means. For classes it is the mutual
        information of class and member.
        """
        if hasattr(self, "class_probabilities"):
            return ops.relu(self.total - self.aleatoric)
        return self.variance_of_means()

    @property
    def total(self):
        """The whole uncertainty: the variance, or the entropy of classes."""
        if hasattr(self, "class_probabilities"):
            return _entropy(self.class_probabilities())
        return self.variance()


def _class_probabilities(self):
    """Mean of the members' probabilities, classes on the last axis."""
    return self.averaged(self.inner.class_probabilities())


def _entropy(probabilities):
    return -ops.sum(probabilities * safe_log(probabilities), axis=-1)
