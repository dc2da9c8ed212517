"""Strengths of priors that follow the gradient of held-out rows."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.backend.processes import replica_count
from keras_likelihood.backend.training_rows import Rows
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import to_float64

_BATCH, _MOST_ROWS = 128, 2048
_DECAY, _SQUARE_DECAY = 0.8, 0.99
START = 0.01
"""Initial strength of L2, twice the factor of `keras.regularizers.L2`."""
# The mean absolute cosine of random directions in n dimensions is .8 / sqrt(n).
_SMALL_COSINE = 0.16


class HeldOutSlopes:
    """Slopes of the held-out loss, without penalties, along the priors.

    The mean square of the gradients estimates the curvature, and with it the
    effective number of weights.
    """

    def __init__(
        self, model: Any, weights: list[Any], terms_per_row: float, seed: int
    ) -> None:
        self._model, self._weights, self._seed = model, weights, seed
        self._terms_per_row = terms_per_row
        own = {id(v) for v in weights}
        # `model.variables` does not include the losses' parameters.
        every = [*model.trainable_variables, *model.non_trainable_variables]
        self._others = [v for v in every if id(v) not in own]
        zeros = [np.zeros(v.shape, "float32") for v in weights]
        self._means: Any = [zeros, zeros]
        self._batches: Iterator[Any] = iter(())
        self._latest: Any = None
        self._run: Any = compiled(self._update)

    def use_rows(self, rows: Rows) -> None:
        """Takes the held-out rows of a training."""
        drawn = rows.draw(_MOST_ROWS)
        count = len(keras.tree.flatten(drawn)[0])
        self._size = min(count, _BATCH)
        order = np.random.default_rng(self._seed).permutation(count)
        order = order[: count - count % self._size].reshape(-1, self._size)
        batches = [
            keras.tree.map_structure(
                lambda a, rows=rows: ops.convert_to_tensor(a[rows]), drawn
            )
            for rows in order
        ]
        self._batches = itertools.cycle(batches)

    def measure(self) -> tuple[list[Array], Array, Array] | None:
        """The slopes, the effective number and the mean curvature, by weight.

        The slopes are `g . p` for each scale, see `LearnScales`. The result is
        that of the previous call, so the host does not wait for the device.
        """
        # Operations on each variable would take longer than the call.
        arguments = (
            keras.tree.map_structure(ops.convert_to_tensor, part)
            for part in (self._weights, self._others, self._means)
        )
        before, rows = self._latest, next(self._batches)
        self._latest, self._means = self._run(*arguments, rows)
        if before is None:
            return None
        count = len(self._weights)
        shapes = [tuple(w.regularizer.log_scale.shape) for w in self._weights]
        shapes += [(count,), (count,)]
        ends = np.cumsum([*map(math.prod, shapes)])[:-1]
        parts = np.split(to_float64(before), ends)
        *slopes, freedom, precision = map(np.reshape, parts, shapes)
        return slopes, freedom, precision

    def _update(
        self, values: list[Any], others: list[Any], means: Any, rows: Any
    ) -> tuple[Any, Any]:
        """The results of `measure` as a vector, and the running means."""

        def with_values(*values: Tensor) -> Any:
            fixed = map(ops.stop_gradient, others)
            mapping = [*zip(self._weights, values, strict=True)]
            mapping += zip(self._others, fixed, strict=True)
            return keras.StatelessScope(state_mapping=mapping)

        def loss(*values: Tensor) -> Tensor:
            with with_values(*values):
                # In front of batch normalization the size of a weight has no
                # effect in training. With moving averages it would seem to.
                output = self._model(rows["x"], training=True)
                return loss_without_penalties(self._model, rows, output)

        values = [*map(ops.stop_gradient, values)]
        _, gradients = value_and_gradient(loss, values)
        with with_values(*values):
            return self._summarized(values, gradients, means)

    def _summarized(
        self, values: list[Any], gradients: list[Any], means: Any
    ) -> tuple[Any, Any]:
        gradients = [ops.cast(g, "float32") for g in gradients]
        # Half precision may overflow.
        finite = [ops.isfinite(ops.sum(g)) for g in gradients]
        squares = [*map(ops.square, gradients)]
        first, second = (
            [
                m + ops.where(fits, (1 - _DECAY) * (g - m), 0.0)
                for m, g, fits in zip(old, new, finite, strict=True)
            ]
            for old, new in zip(means, (gradients, squares), strict=True)
        )
        slopes, freedom, precision = [], [], []
        for i, weight in enumerate(self._weights):
            prior, value = weight.regularizer, ops.cast(values[i], "float32")
            matters = ops.cast(size_matters(gradients[i], value), "float32")
            product = first[i] * prior.prior_gradient(value) * matters
            shape = tuple(prior.log_scale.shape)
            is_whole = tuple(product.shape) == shape
            product = product if is_whole else ops.sum(product)
            slopes.append(ops.reshape(product, (-1,)))
            # The variance of a mean over terms is the curvature of one term
            # divided by their number.
            factor = prior.terms * (self._size * self._terms_per_row)
            curvature = second[i] * factor
            share = prior.share_determined(
                value, ops.exp(prior.log_scale), curvature
            )
            freedom.append(ops.sum(share))
            precision.append(ops.mean(curvature))
        curvatures = [ops.stack(freedom), ops.stack(precision)]
        # A single vector is a single transfer from the device.
        return ops.concatenate([*slopes, *curvatures]), [first, second]


class ScaleGroup:
    """Weights whose scales are chosen together, at places `members`."""

    def __init__(self, weights: list[Any], members: list[int]) -> None:
        self._weights, self._members = [weights[i] for i in members], members
        self._prior = self._weights[0].regularizer
        self._count, self._square = 0, 0.0

    def start(self) -> None:
        # Too weak a start lets a network memorize its training rows first.
        priors = [weight.regularizer for weight in self._weights]
        self._scales = [to_float64(prior.scale()) for prior in priors]
        was_set = not all(np.all(scale == 1.0) for scale in self._scales)
        if self._prior.initial_scale or was_set:
            return
        start = (START * max(float(to_float64(priors[0].terms)), 1.0)) ** -0.5
        if self._prior.order == 1:
            # L1 pulls the initial weights as strongly as L2.
            sizes = [np.abs(to_float64(w)).mean() for w in self._weights]
            sizes = [size for size in sizes if size > 0]
            start = start**2 / np.mean(sizes) if sizes else start
        self._set([np.full_like(scale, start) for scale in self._scales])

    def move(self, slopes: list[Array], rate: float) -> None:
        """A step of RMSProp of the strength along the held-out NLL."""
        order = self._prior.order
        members = zip(self._members, self._scales, strict=True)
        products = [slopes[i] * scale**-order for i, scale in members]
        if not all(np.isfinite(p).all() for p in products):
            return
        is_shared = self._prior.group == "model"
        slope = sum(map(np.sum, products)) if is_shared else products[0]
        self._count += 1
        square = (1 - _SQUARE_DECAY) * slope**2
        self._square = _SQUARE_DECAY * self._square + square
        size = np.sqrt(self._square / (1 - _SQUARE_DECAY**self._count))
        factor = np.exp(-rate * slope / (size + 1e-30) / order)
        pairs = zip(self._scales, products, strict=True)
        self._set([s * factor if p.any() else s for s, p in pairs])

    def _set(self, scales: list[Array]) -> None:
        # Reading them back would wait until an accelerator ends its steps.
        self._scales = scales
        for weight, scale in zip(self._weights, scales, strict=True):
            weight.regularizer.set_scale(scale)


def size_matters(gradient: Tensor, weight: Tensor) -> Tensor:
    """Whether the loss depends on the size of a weight.

    In front of a normalization the gradient is orthogonal to the weights.
    """
    units, members = weight.shape[-1], math.prod(weight.shape[:-1])
    if min(units, members) < 8:
        # A small cosine may be chance.
        return ops.convert_to_tensor(True)
    g = ops.reshape(gradient, (members, units))
    w = ops.reshape(weight, (members, units))
    along = ops.sum(ops.abs(ops.sum(g * w, axis=0)))
    sizes = ops.sum(ops.square(g), axis=0) * ops.sum(ops.square(w), axis=0)
    return along >= _SMALL_COSINE * members**-0.5 * ops.sum(ops.sqrt(sizes))


def loss_without_penalties(
    model: Any, rows: dict[str, Any], output: Tensor
) -> Tensor:
    """The mean loss of rows `{"x", "y", "weight"}` with these outputs."""
    given = rows.get("y"), output, rows.get("weight")
    if getattr(model, "losses_by_output", None):
        loss = model.data_loss(*given)
    else:
        loss = model.compute_loss(rows.get("x"), *given, training=False)
        penalties = sum(ops.cast(a, loss.dtype) for a in model.losses)
        loss = loss - penalties / replica_count()
    # Losses of replicas are summed, so each is divided by their number.
    return loss * replica_count()
