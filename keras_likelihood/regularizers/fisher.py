"""Fisher information, estimated from gradients at sampled targets."""

import functools
import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.gradients import GradientFold, zeros
from keras_likelihood.likelihoods.output import distribution_of, split_output
from keras_likelihood.losses.batch import Batch
from keras_likelihood.regularizers.curvature import (
    LARGEST_MATRIX,
    Curvature,
    diagonal_of,
)


class Outcome(NamedTuple):
    """One output of a model, and its weight in the loss."""

    key: Any  # name or position, or "" for the only output
    distribution: Any
    prediction: Any  # with its Keras mask
    is_only_prediction: bool
    loss_weight: float


def outcomes_of(model, likelihood=None, parameters=None):
    """Returns a function that maps the output of a model to `Outcome`s.

    A plain Keras model needs a likelihood class and its parameters. The result
    is `None` if a part of the loss is not a likelihood or has data parameters.
    """
    distributions: dict = {}
    weight_of = getattr(model, "loss_weight", lambda key: None)
    parts_of = getattr(model, "outputs_by_key", _parts)
    if likelihood is not None:
        parts_of = _parts
        distributions[""] = functools.partial(
            distribution_of, likelihood, known=parameters
        )
    else:
        losses = getattr(model, "losses_by_output", None)
        losses = losses or _parts(getattr(model, "loss", None))
        for key, one in losses.items():
            if not hasattr(one, "distribution") or one.data_parameters:
                return None
            distributions[key] = one.distribution

    def found(output):
        parts = parts_of(output)
        for key, distribution in distributions.items():
            prediction, predicted = split_output(parts[key])
            weight = weight_of(key)
            weight = 1.0 if weight is None else float(weight)
            yield Outcome(
                key, distribution(parts[key]), prediction, not predicted, weight
            )

    return found


def _parts(structure):
    return structure if isinstance(structure, dict) else {"": structure}


_LEAST_BATCHES, _MOST_BATCHES = 16, 512
_MEMORY = 8


class FisherInformation:
    """Running estimate of the curvature with respect to several weights.

        H = num_examples * (left x right) / trace(left)

    The gradient `g` of the log-likelihood at a sampled target, written as a
    matrix, has mean zero and the Fisher information as its covariance. So a few
    small batches suffice for any layer: `left = E[g g']` and
    `right = E[g' g]`. For one output this is the Gauss-Newton matrix, for
    several outputs its Kronecker approximation (Martens and Grosse, 2015).

    It is measured after 16, 32, 64, ... steps, and later at intervals that
    limit the cost to about a tenth of the training. `outcomes` maps the model's
    output to `Outcome`s, and `noise` returns the scale of the likelihood.
    """

    def __init__(self, model, weights, outcomes, noise, seed: int = 0):
        self._model, self._weights = model, weights
        self._outcomes, self._noise = outcomes, noise
        self._seed = keras.random.SeedGenerator(seed)
        self._sums = GradientFold(
            self._score, model, weights, self._seed, _add_products
        )
        self._found: list = [None] * len(weights)
        self._count = self._next = 0

    def measure_if_due(self, step: int, draw):
        """Measures with the rows of `draw()` if the next step is reached."""
        if step < self._next:
            return
        self._measure(draw())
        sides = [n for w in self._weights for n in matrix_shape(w.shape)]
        cubes = sum(n**3 for n in sides if n <= LARGEST_MATRIX)
        # This many steps cost ten measurements. On an accelerator a small
        # batch takes as long as a large one.
        pause = int(10 * (self._batches + cubes / 1e8)) + 32
        self._next = step + min(max(step, 16), pause)

    def prepare(self, rows):
        """Starts to compile for rows of this shape, in the background."""
        self._sums.prepare(*self._arguments(rows))

    def curvature_of(self, i: int, num_examples: float):
        """`Curvature` of `num_examples` terms with respect to weight `i`.

        It is `None` if the curvature is zero or was never finite.
        """
        found = self._found[i]
        size = 0.0 if found is None else np.sum(diagonal_of(found.left))
        if not size > 0:
            return None
        return found.scaled(num_examples / (size * self._noise() ** 2))

    def _measure(self, rows):
        total, batches = self._arguments(rows)
        sides = keras.tree.flatten(batches)[0].shape[:2]
        share = max(1.0 / (self._count + 1), 1.0 / _MEMORY)
        # The curvature is proportional to 1 / noise^2. Removing this factor
        # makes averages over steps independent of earlier noise.
        factor = self._noise() ** 2 / math.prod(sides)
        for i, pair in enumerate(self._sums(total, batches)):
            left, right = (
                ops.convert_to_numpy(f).astype("float64") * factor for f in pair
            )
            if not np.all(np.isfinite(left)) or not np.all(np.isfinite(right)):
                continue
            if before := self._found[i]:
                left = before.left + share * (left - before.left)
                right = before.right + share * (right - before.right)
            self._found[i] = Curvature(left, right)
        self._count += 1

    @property
    def _batches(self):
        """Number of gradients for which the factors have full rank."""
        most = _LEAST_BATCHES
        for weight in self._weights:
            small, large = sorted(matrix_shape(weight.shape))
            large = min(large, LARGEST_MATRIX)
            # The whole matrix of a small weight is used.
            times = 4 if math.prod(weight.shape) <= LARGEST_MATRIX else 1
            most = max(most, math.ceil(times * large / min(small, large)))
        return min(most, _MOST_BATCHES)

    def _arguments(self, rows):
        count = len(keras.tree.flatten(rows)[0])
        batches = min(self._batches, count)
        size = count // batches
        if size < 4:
            # Single examples avoid the noise of cross terms.
            batches, size = count, 1
        total = [_no_products(w.shape) for w in self._weights]
        return total, stacked(rows, batches, size)

    def _weight(self, rows, outcome):
        weights = rows.get("weight")
        by_key = getattr(self._model, "weights_by_key", _parts)
        return by_key(weights).get(outcome.key)

    def _score(self, rows):
        output = self._model(rows["x"], training=False)
        return sum(
            math.sqrt(outcome.loss_weight)
            * _score(member, outcome, self._weight(rows, outcome), self._seed)
            for outcome in self._outcomes(output)
            # Each member of an ensemble has its own curvature.
            for member in getattr(
                outcome.distribution, "members", [outcome.distribution]
            )
        )


def _score(distribution, outcome: Outcome, sample_weight, seed):
    """A scalar whose gradients have the Fisher information as covariance."""
    if outcome.is_only_prediction and not distribution.event_rank:
        prediction = distribution.prediction
        size = ops.sqrt(ops.stop_gradient(distribution.information()))
        coin = keras.random.uniform(ops.shape(prediction), seed=seed) > 0.5
        terms = ops.where(coin, size, -size) * prediction
    else:
        drawn = ops.stop_gradient(distribution.sample(seed=seed))
        terms = distribution.nll(drawn)
    weights = Batch.of(
        type(distribution), None, outcome.prediction, sample_weight
    ).weight
    terms = ops.cast(terms, "float32")
    weights = ops.broadcast_to(ops.cast(weights, "float32"), ops.shape(terms))
    counted = ops.cast(weights > 0, "float32")
    # Keras averages over the unmasked terms of an example.
    each = ops.maximum(ops.sum(counted) / terms.shape[0], 1e-6)
    root = ops.sqrt(ops.where(weights > 0, weights, 1.0)) * counted
    return ops.sum(root * terms) / ops.sqrt(each)


def matrix_shape(shape) -> tuple[int, int]:
    """Splits the axes of a weight in two to make the longer side short.

    >>> matrix_shape((3, 3, 64, 32))
    (576, 32)
    """
    shape = tuple(shape)
    splits = [
        (math.prod(shape[:i]), math.prod(shape[i:])) for i in range(len(shape))
    ]
    # The last of equal splits, because the inputs of a kernel come first.
    return min(reversed(splits), key=max)


def stacked(rows, batches: int, size: int):
    """The first `batches * size` rows of a nest of arrays, in batches."""
    return keras.tree.map_structure(
        lambda a: a[: batches * size].reshape((batches, size, *a.shape[1:])),
        rows,
    )


def _no_products(shape):
    sides = matrix_shape(shape)
    return [zeros((n, n) if n <= LARGEST_MATRIX else n) for n in sides]


def _add_products(total, gradients, values):
    found = []
    for (left, right), gradient in zip(total, gradients, strict=True):
        g = ops.cast(gradient, "float32")
        g = ops.reshape(g, matrix_shape(g.shape))
        found.append([_add(left, g), _add(right, ops.transpose(g))])
    return found


def _add(factor, g):
    if len(factor.shape) == 2:
        return factor + ops.matmul(g, ops.transpose(g))
    return factor + ops.sum(ops.square(g), axis=1)
