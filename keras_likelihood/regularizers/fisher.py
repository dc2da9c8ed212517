"""Gradients at targets that the model itself would draw."""

import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.weight_gradients import (
    compiled_beside,
    fold_gradients,
)
from keras_likelihood.regularizers.curvature import (
    LARGEST_FACTOR,
    matrix_shape,
)
from keras_likelihood.regularizers.scale_free import scale_free

_LEAST_BATCHES, _MOST_BATCHES = 16, 512
_TRAINING_BATCHES = 8


class FisherFactors:
    """Measures the factors of `Curvature` for several weights of a model.

    The gradient of the log-likelihood at a drawn target has mean zero and the
    Fisher information as its covariance. So the gradients of a few small
    batches suffice, whatever the layer.

    Args:
        model: a model.
        weights: its `keras.Variable`s to measure.
        outcomes: function from the model's output to a list of
            `(distribution, alone, weight)`: a `Likelihood`, whether the
            model predicts none of its parameters, and its weight in the loss.
        seed: the random seed of the draws.
    """

    def __init__(self, model, weights, outcomes, seed: int = 0):
        self._model = model
        self._weights = weights
        self._outcomes = outcomes
        self._seed = keras.random.SeedGenerator(seed)
        known = {id(w) for w in weights}
        # What a loss learns is not among `model.variables`.
        held = [*model.trainable_variables, *model.non_trainable_variables]
        self._others = [v for v in held if id(v) not in known]
        self._total_of = fold_gradients(
            self._scores, weights, self._others, self._seed, _add_products
        )

    @property
    def batches(self) -> int:
        """Number of gradients with which the factors have full rank."""
        most = _LEAST_BATCHES
        for weight in self._weights:
            small, large = sorted(matrix_shape(weight.shape))
            large = min(large, LARGEST_FACTOR)
            most = max(most, math.ceil(4 * large / min(small, large)))
        return min(most, _MOST_BATCHES)

    def measure(self, x, count: int) -> list:
        """The factors of each weight, per example.

        Args:
            x: nest of arrays, the inputs of `count` examples.
            count: number of examples.

        Returns:
            List of `(left, right)`, NumPy matrices or their diagonals.
        """
        total, batches, examples = self._arguments(x, count)
        total = self._total_of(total, batches)
        return [
            tuple(ops.convert_to_numpy(f) / examples for f in pair)
            for pair in total
        ]

    def prepare(self, x, count: int):
        """Begins to compile `measure` for such inputs, beside other work."""
        total, batches, _ = self._arguments(x, count)
        self._total_of = compiled_beside(self._total_of, total, batches)

    def _arguments(self, x, count):
        batches = min(self.batches, count)
        size = count // batches
        if size < 4:
            # One by one no products of two examples blur the sum.
            batches, size = count, 1
        total = [_zeros(w.shape) for w in self._weights]
        return total, _stacked(x, batches, size), batches * size

    def scale_free(self, x, count: int, weights=None) -> list:
        """For each weight, whether its size is free; see `scale_free`."""
        weights = self._weights if weights is None else weights
        chosen = {id(w) for w in weights}
        fixed = [w for w in self._weights if id(w) not in chosen]
        # A normalisation over a batch needs several examples in it.
        batches = max(min(_TRAINING_BATCHES, count // 4), 1)
        return scale_free(
            lambda x: self._score_of(self._model(x, training=True)),
            weights,
            [*fixed, *self._others],
            _stacked(x, batches, count // batches),
            self._seed,
        )

    def _scores(self, x):
        return self._score_of(self._model(x, training=False))

    def _score_of(self, output):
        return sum(
            math.sqrt(weight) * _score(distribution, alone, self._seed)
            for distribution, alone, weight in self._outcomes(output)
        )


def _score(distribution, alone, seed):
    """A scalar whose gradients have the Fisher information as covariance."""
    if alone and not distribution.event_rank:
        prediction = distribution.prediction
        size = ops.sqrt(ops.stop_gradient(distribution.information()))
        coin = keras.random.uniform(ops.shape(prediction), seed=seed) > 0.5
        terms = ops.where(coin, size, -size) * prediction
    else:
        drawn = ops.stop_gradient(distribution.sample(seed=seed))
        terms = distribution.nll(drawn)
    each = math.prod(terms.shape[1:])
    return ops.sum(ops.cast(terms, "float32")) / math.sqrt(each)


def _stacked(x, batches, size):
    """The first `batches * size` rows of a nest of arrays, by batch."""
    return keras.tree.map_structure(
        lambda a: ops.convert_to_numpy(a)[: batches * size].reshape(
            (batches, size, *a.shape[1:])
        ),
        x,
    )


def _sides(shape):
    return [
        (n, n) if n <= LARGEST_FACTOR else (n,) for n in matrix_shape(shape)
    ]


def _zeros(shape):
    # JAX compiles `ops.zeros` for each shape.
    return [
        ops.convert_to_tensor(np.zeros(side, "float32"))
        for side in _sides(shape)
    ]


def _add_products(total, gradients):
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
