"""Gradients of held-out rows along the priors of weights."""

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.gradients import GradientFold, zeros
from keras_likelihood.backend.training_rows import Rows
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import to_float64
from keras_likelihood.regularizers.noise_prior import learned_noise

_BATCH, _MOST_ROWS = 128, 2048
_DECAY = 0.8
# The mean absolute cosine of random directions in n dimensions is .8 / sqrt(n).
_SMALL_COSINE = 0.16


class Slopes(NamedTuple):
    """One measurement.

    Attributes:
        slopes: see `Measurement`, one array per weight.
        noise: the same for a learned noise, or `None` without one.
        freedom: effective number of weights, one per weight.
        precision: mean curvature of the NLL, one per weight.
    """

    slopes: list[Array]
    noise: float | None
    freedom: Array
    precision: Array


class HeldOutSlopes:
    """Slopes of the weights of a model (see `Measurement`).

    A slope is 0 if the size of the weight has no effect on the loss.

    The loss is the model's own without penalties, with its weights and masks,
    so any loss will do. The mean square of the gradients estimates the
    curvature, and with it the effective number of weights.
    """

    def __init__(
        self, model: Any, weights: list[Any], terms_per_row: float, seed: int
    ) -> None:
        self._model, self._weights, self._seed = model, weights, seed
        self._terms_per_row = terms_per_row
        noise = learned_noise(model)
        self._noise = [] if noise is None else [noise.unconstrained]
        measured = [*weights, *self._noise]
        seeds = keras.random.SeedGenerator(0)
        self._fold = GradientFold(self._loss, model, measured, seeds, self._add)
        self._shapes = [tuple(w.regularizer.log_scale.shape) for w in weights]
        self._shapes += [(1,) * len(v.shape) for v in self._noise]
        self._shapes += 2 * [(len(weights),)]
        # All results in one vector, and the running means.
        sizes = [*map(math.prod, self._shapes)]
        self._ends = np.cumsum(sizes)[:-1]
        means = [zeros(v.shape) for v in measured]
        squares = [zeros(v.shape) for v in weights]
        self._start = zeros((sum(sizes),)), means, squares
        self._batches: Iterator[Any] = iter(())
        self._latest: Tensor = None

    def use_rows(self, rows: Rows) -> None:
        """Takes the held-out rows of a training."""
        drawn = rows.draw(_MOST_ROWS)
        count = len(keras.tree.flatten(drawn)[0])
        self._size = min(count, _BATCH)
        order = np.random.default_rng(self._seed).permutation(count)
        order = order[: count - count % self._size].reshape(-1, 1, self._size)
        batches = [
            keras.tree.map_structure(
                lambda a, rows=rows: ops.convert_to_tensor(a[rows]), drawn
            )
            for rows in order
        ]
        self._batches = itertools.cycle(batches)

    def prepare(self) -> None:
        """Begins to compile, while the training step is compiled."""
        self._fold.prepare(self._start, next(self._batches))

    def measure(self) -> Slopes | None:
        """The result of the previous call, `None` at the first.

        So the host does not wait for the device.
        """
        before = self._latest
        self._latest, *means = self._fold(self._start, next(self._batches))
        self._start = self._start[0], *means
        if before is None:
            return None
        parts = np.split(to_float64(before), self._ends)
        *slopes, freedom, precision = map(np.reshape, parts, self._shapes)
        noise = slopes.pop().item() if self._noise else None
        return Slopes(slopes, noise, freedom, precision)

    def _loss(self, rows: dict[str, Any]) -> Tensor:
        # In front of batch normalisation the size of a weight has no effect
        # in training. With moving averages it would seem to have one.
        output = self._model(rows["x"], training=True)
        return loss_without_penalties(self._model, rows, output)

    def _add(self, total: Any, gradients: list[Any], values: list[Any]) -> Any:
        means, squares = [], []
        for i, (mean, gradient) in enumerate(
            zip(total[1], gradients, strict=True)
        ):
            g = ops.cast(gradient, "float32")
            # Half precision may overflow.
            share = ops.where(ops.isfinite(ops.sum(g)), 1 - _DECAY, 0.0)
            g = ops.where(share > 0, g, 0.0)
            means.append(mean + share * (g - mean))
            if i < len(self._weights):
                square = total[2][i]
                squares.append(square + share * (ops.square(g) - square))
        products, freedom, precision = list(means), [], []
        for i, weight in enumerate(self._weights):
            prior, value = weight.regularizer, ops.cast(values[i], "float32")
            products[i] = means[i] * prior.prior_gradient(value)
            g = ops.cast(gradients[i], "float32")
            products[i] *= ops.cast(size_matters(g, value), "float32")
            # The variance of a mean over terms is the curvature of one term
            # divided by their number.
            factor = prior.terms * (self._size * self._terms_per_row)
            curvature = squares[i] * factor
            scale = ops.exp(ops.convert_to_tensor(prior.log_scale))
            share = prior.share_determined(value, scale, curvature)
            freedom.append(ops.sum(share))
            precision.append(ops.mean(curvature))
        results = []
        for shape, product in zip(self._shapes, products, strict=False):
            axes = [i for i, n in enumerate(shape) if n == 1]
            results.append(ops.reshape(ops.sum(product, axis=axes), (-1,)))
        results += [ops.stack(freedom), ops.stack(precision)]
        return ops.concatenate(results), means, squares


def size_matters(gradient: Tensor, weight: Tensor) -> Tensor:
    """Whether the loss depends on the size of a weight.

    In front of a normalisation the gradient of each output is orthogonal to
    its weights. The cosine is compared with that of random directions.
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
    if hasattr(model, "data_loss"):
        return model.data_loss(*given)
    loss = model.compute_loss(rows.get("x"), *given, training=False)
    return loss - sum(ops.cast(a, loss.dtype) for a in model.losses)
