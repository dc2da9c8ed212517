"""Several networks for one table, trained side by side."""

import math

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.constraints import Softplus
from keras_likelihood.layers.target_units import centre_and_spread
from keras_likelihood.likelihoods import (
    CountLikelihood,
    LocationScale,
    PositiveLikelihood,
)

_SCALE = Softplus(floor=1e-3)
"""A target may be known to a thousandth of its spread."""


@serializable
class MemberNetworks(keras.Layer):
    """Equal networks with weights of their own: hidden layers and a head.

    The members share nothing but the batch, so each of them ends where it
    would end alone. A step of all of them takes a few large products of
    matrices. So does TabM (Gorishniy et al. 2024), which also shares weights.

    The prediction and the parameters of the likelihood are linear in the last
    hidden layer, and then in the units of the target:

        prediction = centre + spread * constraint(...)

    Args:
        likelihood: a `Likelihood` of one number or of classes, or its name.
        members: number of networks.
        classes: number of classes, or `None` for a number.
        hidden: width of each hidden layer.
        dropout: share of the hidden units left out in training.
        seed: the random seed of the weights and of the dropout.

    Input: `(batch, features)`.
    Output: prediction and parameters, each `(batch, members)`; for classes
    the logits `(batch, members, classes)`.
    """

    def __init__(
        self,
        likelihood,
        members: int,
        *,
        classes: int | None = None,
        hidden=(128, 128, 128),
        dropout: float = 0.0,
        seed: int = 0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.likelihood = likelihoods.get(likelihood)
        self.members = int(members)
        self.classes = classes
        self.hidden = tuple(hidden)
        self.dropout = float(dropout)
        self.seed = int(seed)
        self._generator = keras.random.SeedGenerator(self.seed)
        self._in_units = issubclass(self.likelihood, LocationScale)
        # A head of classes has logits alone.
        self._constraints = {
            p.name: _SCALE
            if self._in_units and p.name == "scale"
            else p.constraint
            for p in (() if classes else self.likelihood.parameters)
        }

    def build(self, input_shape):
        seeds = np.random.default_rng(self.seed)
        self._hidden_layers = []
        size = input_shape[-1]
        for units in self.hidden:
            deviation = math.sqrt(2 / size)
            self._hidden_layers.append(
                self._dense(size, units, deviation, seeds)
            )
            size = units
        outputs = self.classes or 1 + len(self._constraints)
        self._head = self._dense(size, outputs, 0.02, seeds, "head")
        start = np.zeros(outputs)
        for at, (name, constraint) in enumerate(self._constraints.items(), 1):
            initial = self.likelihood.parameter(name).initial
            start[at] = constraint.inverse(initial)
        self._head[1].assign(np.broadcast_to(start, self._head[1].shape))
        # The tails are the same for all rows, because few rows show them.
        names = ["prediction", *self._constraints]
        self._is_predicted = [float(name != "df") for name in names]
        self.centre = self._constant("centre", 0.0)
        self.spread = self._constant("spread", 1.0)

    def _dense(self, size, units, deviation, seeds, name="hidden"):
        kernel = self.add_weight(
            name=f"{name}_kernel",
            shape=(self.members, size, units),
            initializer=keras.initializers.RandomNormal(
                stddev=deviation, seed=int(seeds.integers(2**31))
            ),
        )
        bias = self.add_weight(
            name=f"{name}_bias",
            shape=(self.members, 1, units),
            initializer="zeros",
        )
        return kernel, bias

    def _constant(self, name, value):
        return self.add_weight(
            name=name,
            shape=(),
            initializer=keras.initializers.Constant(value),
            trainable=False,
        )

    def adapt(self, y, sample_weight=None):
        """Lets the head start in the units of the targets `(n,)`."""
        kind = self.likelihood
        if self.classes:
            return
        if self._in_units:
            centre, spread = centre_and_spread(y, 1, sample_weight)
            self.centre.assign(float(centre[0]))
            self.spread.assign(float(spread[0]))
            return
        mean = float(np.average(y, weights=sample_weight))
        if issubclass(kind, PositiveLikelihood | CountLikelihood):
            self.spread.assign(max(mean, 1e-6))
            mean = 1.0
        start = ops.convert_to_numpy(self._head[1]).copy()
        start[..., 0] = kind.prediction_constraint.inverse(mean)
        self._head[1].assign(start)

    def call(self, inputs, training=False):
        x = inputs
        for number, (kernel, bias) in enumerate(self._hidden_layers):
            if number == 0:
                x = ops.einsum("bi,kio->kbo", x, kernel)
            else:
                x = ops.matmul(x, kernel)
            x = ops.silu(x + bias)
            if training and self.dropout:
                x = keras.random.dropout(x, self.dropout, seed=self._generator)
        kernel, bias = self._head
        if self.classes:
            return ops.transpose(ops.matmul(x, kernel) + bias, (1, 0, 2))
        kernel = kernel * ops.convert_to_tensor(self._is_predicted, x.dtype)
        x = ops.transpose(ops.matmul(x, kernel) + bias, (1, 0, 2))
        prediction = x[..., 0]
        if self.likelihood.prediction_constraint is not None:
            prediction = self.likelihood.prediction_constraint(prediction)
        outputs = [self.centre + self.spread * prediction]
        for at, (name, constraint) in enumerate(self._constraints.items(), 1):
            value = constraint(x[..., at])
            is_length = self._in_units and name == "scale"
            outputs.append(value * self.spread if is_length else value)
        return outputs if len(outputs) > 1 else outputs[0]

    def get_config(self):
        return {
            **super().get_config(),
            "likelihood": self.likelihood.name(),
            "members": self.members,
            "classes": self.classes,
            "hidden": list(self.hidden),
            "dropout": self.dropout,
            "seed": self.seed,
        }
