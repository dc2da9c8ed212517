"""Targets that follow one of several distributions."""

import dataclasses
import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.constraints import Identity
from keras_likelihood.likelihoods.inversion import solve, solve_count
from keras_likelihood.likelihoods.likelihood import get
from keras_likelihood.likelihoods.moments import (
    information_by_quantiles,
    repeated,
)
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.wrapper import Wrapper


class Mixture(Wrapper):
    """A mixture of several distributions of one likelihood.

        nll(y) = -log sum_j weight_j exp(-nll_j(y))

    With a head that predicts its parameters it is a mixture density network
    (Bishop 1994): it tells apart answers of which several are right.

    ```python
    several = kl.likelihoods.Mixture("normal", components=3)
    outputs = kl.layers.LikelihoodHead(several, 1)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.LikelihoodLoss(several))
    ```

    The prediction stays the mean of the outcome. Component j lies at
    `prediction + offset_j - sum_i weight_i offset_i`, or, where outcomes are
    positive, at `prediction * exp(offset_j) / sum_i weight_i exp(offset_i)`.

    Args:
        likelihood: a `Likelihood` of numbers or its name.
        components: number of distributions, `>= 2`. Defaults to 2.

    The parameters of the class that this makes are vectors, of `components`
    values for every outcome. With one unit they have the shape
    `(batch, ..., components)`, else `(batch, ..., units * components)`.

    - `logit`: the weights are the softmax of these. They start equal.
    - `offset`: where the components lie. They start from -1 to 1, so that
      no two components are alike.
    - the parameters of the likelihood, such as `scale`.
    """

    @classmethod
    def define(cls, likelihood, *, components=2):
        inner = get(likelihood)
        cls.require_numbers(inner)
        constraint = inner.prediction_constraint
        vector = any(p.size is not None for p in inner.parameters)
        if vector or (constraint is not None and constraint.high < math.inf):
            raise ValueError(
                "Mixture needs a likelihood of real or of positive numbers, "
                "each with parameters that are numbers. "
                f"Received: {inner.name()!r}"
            )
        if not (isinstance(components, int) and components >= 2):
            raise ValueError(
                "`components` must be a whole number >= 2. "
                f"Received: {components!r}"
            )
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

    def _by_component(self, name):
        """A parameter as `(batch, ..., 1 or units, components)`."""
        value = getattr(self, name)
        shape = tuple(ops.shape(value))
        units = value.shape[-1] // self.components
        return ops.reshape(value, (*shape[:-1], units, self.components))

    def log_weights(self):
        """Logarithms of the weights, components on the last axis."""
        return ops.log_softmax(self._by_component("logit"), axis=-1)

    @property
    def inner(self):
        """The components, on an axis behind that of the units."""
        offset, weights = self._by_component("offset"), self.log_weights()
        mean = self.prediction[..., None]
        if self.prediction_constraint is None:
            centre = ops.sum(ops.exp(weights) * offset, axis=-1, keepdims=True)
            location = mean + (offset - centre)
        else:
            total = ops.logsumexp(weights + offset, axis=-1, keepdims=True)
            location = mean * ops.exp(offset - total)
        parameters = {
            p.name: self._by_component(p.name)
            for p in self.likelihood.parameters
        }
        return self.likelihood(location, **parameters)

    def _repeated(self, y):
        """Targets once for every component."""
        y = self._check_target(y)[..., None]
        return ops.broadcast_to(y, (*ops.shape(y)[:-1], self.components))

    def nll(self, y):
        nll = self.inner.nll(self._repeated(y))
        return -ops.logsumexp(self.log_weights() - nll, axis=-1)

    @classmethod
    def check_targets(cls, y, prediction_shape):
        cls.likelihood.check_targets(y, prediction_shape)

    def cdf(self, y):
        return self._averaged(self.inner.cdf(self._repeated(y)))

    def cdf_below(self, y):
        return self._averaged(self.inner.cdf_below(self._repeated(y)))

    def log_tail(self, y, upper):
        upper = ops.logical_and(upper, ops.ones_like(y, dtype="bool"))
        tails = self.inner.log_tail(self._repeated(y), upper[..., None])
        return ops.logsumexp(self.log_weights() + tails, axis=-1)

    def _averaged(self, values):
        return ops.sum(ops.exp(self.log_weights()) * values, axis=-1)

    def mean(self):
        """The prediction, where the components have means."""
        return self._averaged(self.inner.mean())

    def sample(self, count=None, seed=None):
        drawn = self.inner.sample(count, seed)
        uniform = keras.random.uniform(
            self._sample_shape(count),
            dtype=self.prediction.dtype,
            # Numbers of their own, for a seed that is one.
            seed=seed + 1 if isinstance(seed, int) else seed,
        )
        # The component in whose part of (0, 1) the uniform number falls.
        ends = ops.cumsum(ops.exp(self.log_weights()), axis=-1)
        passed = ops.cast(uniform[..., None] > ends[..., :-1], "int32")
        chosen = ops.one_hot(
            ops.sum(passed, axis=-1), self.components, dtype=drawn.dtype
        )
        return ops.sum(ops.where(chosen > 0, drawn, 0.0), axis=-1)

    def quantile(self, p):
        """The value below which a fraction `p` of outcomes falls.

        Found by bisection between the quantiles of the components.
        """
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        names = ["prediction", *(q.name for q in self.parameters)]
        tensors = {name: getattr(self, name) for name in names}
        return _quantile(type(self), tensors, p)

    def _solve(self, p):
        p = p + ops.zeros_like(self.prediction)
        each = ops.stop_gradient(self.inner.quantile(p[..., None]))
        low, high = ops.min(each, axis=-1), ops.max(each, axis=-1)
        every = repeated(self, p)
        if self.is_discrete:
            return solve_count(every.cdf, p, low - 1, high)
        return solve(
            lambda y: (
                ops.exp(every.log_cdf(y)),
                ops.exp(every.log_survival(y)),
            ),
            lambda y: ops.exp(-every.nll(y)),
            p,
            low,
            high,
        )

    def information(self):
        """By its definition, from the quantiles."""
        return information_by_quantiles(self)


def _solve(likelihood, tensors, p):
    density = object.__new__(likelihood)
    vars(density).update(tensors)
    return density._solve(p)


_quantile = compiled(_solve, static=1)
