"""Measures curvature by gradients at targets that the model would draw."""

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.weight_gradients import GradientFold
from keras_likelihood.evidence import Curvature
from keras_likelihood.evidence.curvature import LARGEST_MATRIX
from keras_likelihood.likelihoods.ensemble_distribution import (
    EnsembleDistribution,
)
from keras_likelihood.likelihoods.output import distribution_of, split_output
from keras_likelihood.losses.batch import Batch


class Outcome(NamedTuple):
    """One output of a model.

    Attributes:
        distribution: its `Likelihood`.
        prediction: the predicted tensor, with the mask that Keras gave it.
        is_prediction_alone: whether the model predicts no parameter.
        loss_weight: its weight in the loss.
    """

    distribution: Any
    prediction: Any
    is_prediction_alone: bool
    loss_weight: float


def outcomes_of(model, likelihood=None, parameters=None):
    """Finds how to read the outputs of a model as distributions.

    Args:
        model: a compiled model.
        likelihood: class of the likelihood of a stock model, or `None` for
            the losses of a `LikelihoodModel`.
        parameters: values of the likelihood's parameters, by name.

    Returns:
        Function from the output to a list of `Outcome`s. `None` if a part of
        the loss is not a likelihood, or needs the index of each example.
    """
    if likelihood is not None:
        return lambda output: [
            _outcome(
                output,
                distribution_of(likelihood, output, known=parameters),
                None,
            )
        ]
    loss = getattr(model, "loss", None)
    weight_of = getattr(model, "loss_weight", lambda key: None)
    losses: dict = loss if isinstance(loss, dict) else {"": loss}
    for value in losses.values():
        if not hasattr(value, "distribution") or value.data_parameters:
            return None

    def found(output):
        parts = {k: output[k] if k else output for k in losses}
        return [
            _outcome(parts[k], losses[k].distribution(parts[k]), weight_of(k))
            for k in losses
        ]

    return found


def _outcome(part, distribution, weight):
    prediction, parameters = split_output(part)
    weight = 1.0 if weight is None else float(weight)
    return Outcome(distribution, prediction, not parameters, weight)


LARGEST_FACTOR = 640
"""A Kronecker factor with more rows is kept as its diagonal."""

_LEAST_BATCHES, _MOST_BATCHES = 16, 512
_MEMORY = 8


class FisherInformation:
    """Running estimate of the curvature by several weights of a model.

        H = num_examples * (left x right) / trace(left)

    The gradient `g` of the log-likelihood at a drawn target, written as a
    matrix, has mean zero and the Fisher information as its covariance. So a
    few small batches suffice, whatever the layer: `left = E[g g']` and
    `right = E[g' g]`. For a layer with one output this is the Fisher
    information itself (the Gauss-Newton matrix); for several it is its
    Kronecker approximation (Martens and Grosse, 2015).

    It is measured after 16, 32, 64, ... steps, and later so rarely that it
    costs about a tenth of the training.

    Args:
        model: a model.
        weights: its `keras.Variable`s to measure.
        outcomes: function from the model's output to a list of `Outcome`s.
        noise: function that returns the scale of the likelihood.
        seed: the random seed of the drawn targets.
    """

    def __init__(self, model, weights, outcomes, noise, seed: int = 0):
        self._model, self._weights = model, weights
        self._outcomes, self._noise = outcomes, noise
        self._seed = keras.random.SeedGenerator(seed)
        self._sums = GradientFold(
            self._score,
            weights,
            other_variables(model, weights),
            self._seed,
            _add_products,
        )
        self._factors: list = [None] * len(weights)
        self._curvatures: dict = {}
        self._count = 0
        self._next = 0

    def measure_if_due(self, step: int, draw):
        """Measures with the rows of `draw()`, unless it is too early."""
        if step >= self._next:
            self._measure(draw())
            self._next = step + min(max(step, 16), self._pause)

    def prepare(self, rows):
        """Begins to compile for rows of this shape, beside other work."""
        self._sums.prepare(*self._arguments(rows))

    def curvature_of(self, i: int, num_examples: float):
        """`Curvature` of `num_examples` terms by the weight of number `i`.

        `None` if it is zero or was never finite.
        """
        if self._factors[i] is None:
            return None
        left, right = self._factors[i]
        size = float(np.sum(left) if left.ndim == 1 else np.trace(left))
        if not size > 0:
            return None
        if i not in self._curvatures:
            self._curvatures[i] = Curvature.of_product(left, right)
        return self._curvatures[i].scaled(
            num_examples / (size * self._noise() ** 2)
        )

    def _measure(self, rows):
        total, batches = self._arguments(rows)
        sides = keras.tree.flatten(batches)[0].shape[:2]
        found = self._sums(total, batches)
        share = max(1.0 / (self._count + 1), 1.0 / _MEMORY)
        # A likelihood with a scale has a curvature proportional to its
        # inverse square, which is known better than that of some steps ago.
        factor = self._noise() ** 2 / math.prod(sides)
        for i, pair in enumerate(found):
            pair = [
                ops.convert_to_numpy(f).astype("float64") * factor for f in pair
            ]
            if not all(np.all(np.isfinite(f)) for f in pair):
                continue
            if self._factors[i] is not None:
                pair = [
                    old + share * (new - old)
                    for old, new in zip(self._factors[i], pair, strict=True)
                ]
            self._factors[i] = pair
        self._count += 1
        self._curvatures = {}

    @property
    def _batches(self):
        """Number of gradients with which the factors have full rank."""
        most = _LEAST_BATCHES
        for weight in self._weights:
            small, large = sorted(matrix_shape(weight.shape))
            large = min(large, LARGEST_FACTOR)
            # The joint curvature of a small weight is used as it is.
            times = 4 if math.prod(weight.shape) <= LARGEST_MATRIX else 1
            most = max(most, math.ceil(times * large / min(small, large)))
        return min(most, _MOST_BATCHES)

    @property
    def _pause(self):
        """Number of steps that are worth ten measurements."""
        sides = [n for w in self._weights for n in matrix_shape(w.shape)]
        cubes = sum(n**3 for n in sides if n <= LARGEST_FACTOR)
        # On an accelerator a small batch takes as long as a large one.
        return int(10 * (self._batches + cubes / 1e8)) + 32

    def _arguments(self, rows):
        count = len(keras.tree.flatten(rows)[0])
        batches = min(self._batches, count)
        size = count // batches
        if size < 4:
            # One by one no products of two examples blur the sum.
            batches, size = count, 1
        total = [_zeros(w.shape) for w in self._weights]
        return total, stacked(rows, batches, size)

    def _score(self, rows):
        output = self._model(rows["x"], training=False)
        return sum(
            math.sqrt(outcome.loss_weight)
            * _score(member, outcome, rows.get("weight"), self._seed)
            for outcome in self._outcomes(output)
            for member in _members(outcome.distribution)
        )


def _members(distribution):
    """Members of an ensemble, each of which has a curvature of its own."""
    if isinstance(distribution, EnsembleDistribution):
        return distribution.members
    return [distribution]


def _score(distribution, outcome: Outcome, sample_weight, seed):
    """A scalar whose gradients have the Fisher information as covariance."""
    if outcome.is_prediction_alone and not distribution.event_rank:
        prediction = distribution.prediction
        size = ops.sqrt(ops.stop_gradient(distribution.information()))
        coin = keras.random.uniform(ops.shape(prediction), seed=seed) > 0.5
        terms = ops.where(coin, size, -size) * prediction
    else:
        drawn = ops.stop_gradient(distribution.sample(seed=seed))
        terms = distribution.nll(drawn)
    batch = Batch(outcome.prediction, None, sample_weight)
    weights = batch.weights(distribution.event_rank)
    terms = ops.cast(terms, "float32")
    weights = ops.broadcast_to(ops.cast(weights, "float32"), ops.shape(terms))
    counted = ops.cast(weights > 0, "float32")
    # Keras averages over the terms of an example that are not masked.
    each = ops.maximum(ops.sum(counted) / terms.shape[0], 1e-6)
    root = ops.sqrt(ops.where(weights > 0, weights, 1.0)) * counted
    return ops.sum(root * terms) / ops.sqrt(each)


def matrix_shape(shape) -> tuple[int, int]:
    """Splits the axes of a weight in two, so that the longer side is short.

    >>> matrix_shape((3, 3, 64, 32))
    (576, 32)
    """
    shape = tuple(shape)
    splits = [
        (math.prod(shape[:i]), math.prod(shape[i:])) for i in range(len(shape))
    ]
    # Of equal ones the last: the inputs of a kernel come first.
    return min(reversed(splits), key=max)


def other_variables(model, weights) -> list:
    """The variables that the loss of a model reads, without `weights`."""
    known = {id(w) for w in weights}
    # What a loss learns is not among `model.variables`.
    held = [*model.trainable_variables, *model.non_trainable_variables]
    return [v for v in held if id(v) not in known]


def stacked(rows, batches: int, size: int):
    """The first `batches * size` rows of a nest of arrays, by batch."""
    return keras.tree.map_structure(
        lambda a: a[: batches * size].reshape((batches, size, *a.shape[1:])),
        rows,
    )


def _zeros(shape):
    # JAX compiles `ops.zeros` for each shape.
    return [
        ops.convert_to_tensor(np.zeros(side, "float32"))
        for n in matrix_shape(shape)
        for side in [(n, n) if n <= LARGEST_FACTOR else (n,)]
    ]


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
