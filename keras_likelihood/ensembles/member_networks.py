"""An ensemble of networks for tables in one layer."""

import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood import likelihoods
from keras_likelihood.backend.registration import serializable
from keras_likelihood.backend.types import Array, Shape, Tensor
from keras_likelihood.constraints import Softplus
from keras_likelihood.layers.target_units import centre_and_spread
from keras_likelihood.serving import ClassLogits

_SCALE = Softplus(floor=1e-3)
"""The scale is at least a thousandth of the targets' spread."""


@serializable
class MemberNetworks(keras.Layer):
    """Independent networks of equal architecture: hidden layers and a head.

    A step of all members takes a few large matrix products, as in TabM
    (Gorishniy, Kotelnikov and Babenko 2024), which also shares weights.

    Args:
        likelihood: name of a likelihood of one number or of classes.
        members: number of networks.
        classes: number of classes, or `None` for a number.
        hidden: width of each hidden layer.
        seed: random seed of the weights.

    Input: `(batch, features)`, or `(members, batch, features)` if each member
    has other rows. Output: prediction and parameters, each `(batch, members)`;
    for classes the logits `(batch, members, classes)`.
    """

    def __init__(
        self,
        likelihood: str,
        members: int,
        *,
        classes: int | None = None,
        hidden: Sequence[int] = (128, 128, 128),
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.likelihood = likelihoods.get(likelihood)
        self.members = members
        self.classes = classes
        self.hidden = tuple(hidden)
        self.seed = seed
        self._in_units = issubclass(self.likelihood, likelihoods.LocationScale)
        self._is_ordered = issubclass(self.likelihood, likelihoods.Ordinal)
        # A head for classes has only logits, or a score and the gaps.
        has_parameters = self._is_ordered or not classes
        self._constraints = {
            p.name: p.constraint
            for p in (self.likelihood.parameters if has_parameters else ())
        }
        if self._in_units:
            self._constraints["scale"] = _SCALE
        if self._is_ordered:
            self._logits = ClassLogits(self.likelihood.name(), {})

    def build(self, input_shape: Shape) -> None:
        random = np.random.default_rng(self.seed)
        outputs = self.classes or 1 + len(self._constraints)
        if self._is_ordered:
            outputs -= 1
        names = [f"hidden_{i}" for i in range(len(self.hidden))] + ["head"]
        self._dense = []
        sizes: list[Any] = [input_shape[-1], *self.hidden, outputs]
        for name, size, units in zip(names, sizes, sizes[1:], strict=False):
            spread = 0.02 if name == "head" else math.sqrt(2 / size)
            shape = (self.members, size, units)
            # On JAX, the initializers of Keras would compile for each shape.
            kernel = spread * random.standard_normal(shape, "float32")
            bias = np.zeros((self.members, 1, units), "float32")
            parts = {"kernel": kernel, "bias": bias}
            self._dense.append(
                tuple(self._add(f"{name}_{k}", v) for k, v in parts.items())
            )
        self._start = np.zeros(outputs)
        for at, (name, constraint) in enumerate(self._constraints.items(), 1):
            initial = self.likelihood.parameter(name).initial
            # The gaps are the last parameter and fill the rest.
            self._start[at:] = constraint.inverse(initial)
        self._start_head()
        self.centre = self._add("centre", np.zeros((), "float32"), False)
        self.spread = self._add("spread", np.ones((), "float32"), False)

    def _add(self, name: str, value: Array, trainable: bool = True) -> Any:
        return self.add_weight(
            value.shape,
            lambda *_, **__: ops.convert_to_tensor(value),
            trainable=trainable,
            name=name,
        )

    def _start_head(self) -> None:
        _, bias = self._dense[-1]
        bias.assign(np.broadcast_to(self._start, bias.shape))

    def adapt(self, y: Array, sample_weight: Array | None = None) -> None:
        """Initializes the head in the units of the targets `(n,)`."""
        constraint = self.likelihood.prediction_constraint
        if self._is_ordered:
            # Start at the frequencies of the classes.
            counts = np.bincount(y, sample_weight, len(self._start) + 1)
            below = np.cumsum(counts / counts.sum())[:-1]
            cuts = np.log(below / (1 - below))
            gaps = np.maximum(np.diff(cuts), 0.1)
            self._start[0] = -0.5 * (cuts[0] + cuts[-1])
            self._start[1:] = self._constraints["gaps"].inverse(gaps)
            self._start_head()
        elif self._in_units:
            centre, spread = centre_and_spread(y, 1, sample_weight)
            self.centre.assign(float(centre[0]))
            self.spread.assign(float(spread[0]))
        elif constraint is not None and not self.classes:
            mean = float(np.average(y, weights=sample_weight))
            kinds = likelihoods.PositiveLikelihood | likelihoods.CountLikelihood
            if issubclass(self.likelihood, kinds):
                self.spread.assign(mean)
                mean = 1.0
            self._start[0] = constraint.inverse(mean)
            self._start_head()

    def call(self, inputs: Tensor) -> Any:
        *hidden, (kernel, bias) = self._dense
        x = inputs
        for weight, start in hidden:
            x = ops.silu(ops.matmul(x, weight) + start)
        raw = ops.matmul(x, kernel * self._used_units()) + bias
        return self.head(ops.transpose(raw, (1, 0, 2)))

    def _used_units(self) -> Array:
        """0 for `df`, which few rows determine, and gaps: rows share them."""
        names = ["prediction", *self._constraints]
        used = [float(name not in ("df", "gaps")) for name in names]
        count = len(self._start)
        return np.array((used + used[-1:] * count)[:count], "float32")

    def head(self, x: Tensor) -> Any:
        """The outputs, from the units `(batch, members, units)`."""
        if self._is_ordered:
            return self._logits(
                [x[..., :1], self._constraints["gaps"](x[..., 1:])]
            )
        if self.classes:
            return x
        prediction = x[..., 0]
        if self.likelihood.prediction_constraint is not None:
            prediction = self.likelihood.prediction_constraint(prediction)
        outputs = [self.centre + self.spread * prediction]
        for at, (name, constraint) in enumerate(self._constraints.items(), 1):
            is_length = self._in_units and name == "scale"
            value = constraint(x[..., at])
            outputs.append(value * self.spread if is_length else value)
        return outputs if len(outputs) > 1 else outputs[0]

    def dense_layers(self) -> list[tuple[Array, Array]]:
        """Kernels and biases, as arrays that may be changed."""
        layers = [
            [np.array(ops.convert_to_numpy(v)) for v in pair]
            for pair in self._dense
        ]
        layers[-1][0] *= self._used_units()
        return [(kernel, bias) for kernel, bias in layers]

    def set_last_layer(self, kernel: Array, bias: Array) -> None:
        for at, value in enumerate((kernel, bias)):
            self._dense[-1][at].assign(value)

    def scale_unit(self) -> int:
        """The number of the unit of the head that predicts the scale."""
        return 1 + list(self._constraints).index("scale")
