"""A prediction with its parameters, by name."""

import collections
import functools
from typing import Any

import numpy as np

from keras_likelihood.likelihoods.output import split_output


def named_output(output, names: list[str]):
    """`(prediction, parameter, ...)` as a tuple whose entries have names.

    It unpacks like any tuple. Converted to one array, as NumPy and
    scikit-learn do, it is the prediction.
    """
    prediction, parameters = split_output(output)
    if not parameters:
        return output
    return _named_tuple("prediction", *names)(prediction, *parameters)


@functools.cache
def _named_tuple(*fields):
    def as_array(self, dtype=None, copy=None):
        return np.array(self[0], dtype=dtype, copy=copy)

    def as_plain_tuple(self):
        return tuple, (tuple(self),)

    make: Any = collections.namedtuple
    made = make("Output", fields)
    made.ndim = property(lambda self: np.ndim(self[0]))
    made.__array__ = as_array
    made.__reduce__ = as_plain_tuple
    return made
