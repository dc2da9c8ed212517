"""Targets that follow one of several distributions."""

import dataclasses
import math

import numpy as np
from keras import ops

from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods.checks import check_size
from keras_likelihood.likelihoods.mixed import Mixed
from keras_likelihood.likelihoods.parameter import Parameter


class Mixture(Mixed):
    """A mixture of several distributions of one likelihood.

        nll(y) = -log sum_j weight_j exp(-nll_j(y))

    With a head that predicts its parameters it is a mixture density network
    (Bishop 1994). It can represent several possible answers.

    ```python
    several = kl.likelihoods.Mixture("normal", components=3)
    outputs = kl.layers.LikelihoodHead(several, 1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.LikelihoodLoss(several))
    ```

    The prediction is the mean of the outcome. Component j lies at
    `prediction + offset_j - sum_i weight_i offset_i`. If outcomes are
    positive, it lies at
    `prediction * exp(offset_j) / sum_i weight_i exp(offset_i)`.

    Args:
        likelihood: a `Likelihood` of numbers or its name.
        components: number of distributions, from 2 to 1000. Defaults to 2.

    The parameters of the class that this makes are vectors, of `components`
    values for every outcome. With one unit they have the shape
    `(batch, ..., components)`, else `(batch, ..., units * components)`.

    - `logit`: the weights are the softmax of these. They start equal.
    - `offset`: the places of the components. They start at different values
      from -1 to 1.
    - the parameters of the likelihood, such as `scale`.
    """

    @classmethod
    def define(cls, likelihood, *, components=2):
        inner = cls.require_numbers(likelihood)
        constraint = inner.prediction_constraint
        vector = any(p.size is not None for p in inner.parameters)
        if vector or (constraint is not None and constraint.high < math.inf):
            raise ValueError(
                "Mixture needs a likelihood of real or of positive numbers, "
                "each with parameters that are numbers. "
                f"Received: {inner.name()!r}"
            )
        check_size("components", components, 2)
        start = tuple(np.linspace(-1, 1, components).tolist())
        k = {"size": components}
        own = (
            Parameter("logit", Identity(), initial=0.0, **k),
            Parameter("offset", Identity(), initial=start, **k),
        )
        shared = tuple(dataclasses.replace(p, **k) for p in inner.parameters)
        return {
            **cls.attributes_of(inner),
            "components": components,
            "parameters": own + shared,
        }

    def _value(self, name):
        """A parameter as `(batch, ..., 1 or units, components)`."""
        value = getattr(self, name)
        shape = tuple(ops.shape(value))
        units = value.shape[-1] // self.components
        return ops.reshape(value, (*shape[:-1], units, self.components))

    def log_weights(self):
        return ops.log_softmax(self._value("logit"), axis=-1)

    @property
    def inner(self):
        """The components, on an axis behind that of the units."""
        offset, weights = self._value("offset"), self.log_weights()
        mean = self.prediction[..., None]
        if self.prediction_constraint is None:
            centre = ops.sum(ops.exp(weights) * offset, axis=-1, keepdims=True)
            location = mean + (offset - centre)
        else:
            total = ops.logsumexp(weights + offset, axis=-1, keepdims=True)
            location = mean * ops.exp(offset - total)
        return self._around(location)

    def repeated_target(self, y):
        y = self._check_target(y)[..., None]
        return ops.broadcast_to(y, (*ops.shape(y)[:-1], self.components))
