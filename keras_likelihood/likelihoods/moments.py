"""Mean and information of a distribution that is known by its quantiles."""

import functools
import math

import numpy as np
from keras import ops

from keras_likelihood.backend.rows import value_and_gradient


@functools.cache
def _nodes():
    """Probabilities and weights: the trapezoidal rule in `Phi^-1(p)`.

    The largest is the largest float32 number below 1.
    """
    t = np.arange(-5, 5.01, 0.25)
    p = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in t])
    weight = np.exp(-0.5 * t**2)
    return p, weight / weight.sum()


def _on_first_axis(distribution):
    """The nodes as tensors with an axis before those of the prediction."""
    shape = (-1,) + (1,) * len(distribution.prediction.shape)
    dtype = distribution.prediction.dtype
    return [
        ops.convert_to_tensor(values.reshape(shape), dtype=dtype)
        for values in _nodes()
    ]


def mean_by_quantiles(distribution):
    """Mean of the outcomes, of the prediction's shape.

    The outer 3e-7 of each tail is left out.
    """
    p, weights = _on_first_axis(distribution)
    return ops.sum(weights * distribution.quantile(p), axis=0)


def variance_by_quantiles(distribution):
    """Variance of the outcomes, of the prediction's shape.

    The outer 3e-7 of each tail is left out. So the result is finite even if
    the variance is not.
    """
    p, weights = _on_first_axis(distribution)
    y = distribution.quantile(p)
    mean = ops.sum(weights * y, axis=0)
    return ops.sum(weights * ops.square(y - mean), axis=0)


def information_by_quantiles(distribution):
    """Fisher information of the prediction, by its definition.

    It is a constant when differentiated.
    """
    p, weights = _on_first_axis(distribution)
    y = ops.stop_gradient(distribution.quantile(p))
    every = repeated(distribution, y)
    values = {
        parameter.name: ops.stop_gradient(getattr(every, parameter.name))
        for parameter in every.parameters
    }

    def nll(prediction):
        return type(every)(prediction, **values).nll(y)

    prediction = ops.stop_gradient(every.prediction)
    _, (score,) = value_and_gradient(nll, [prediction])
    return ops.stop_gradient(ops.sum(weights * ops.square(score), axis=0))


def repeated(distribution, like):
    """The distribution, with predictions repeated to the shape of `like`.

    Args:
        distribution: a `Likelihood`.
        like: tensor whose last axes are those of the prediction.
    """
    extra = len(like.shape) - len(distribution.prediction.shape)
    values = {}
    for parameter in distribution.parameters:
        value = getattr(distribution, parameter.name)
        if len(value.shape):
            shape = (1,) * extra + tuple(ops.shape(value))
            value = ops.reshape(value, shape)
        values[parameter.name] = value
    prediction = ops.broadcast_to(distribution.prediction, ops.shape(like))
    return type(distribution)(prediction, **values)
