"""How methods are called: half precision, NumPy, NaN, levels of quantiles."""

import functools

import keras
import numpy as np
from keras import ops

from keras_likelihood.likelihoods.padded_rows import OF_TARGETS, padded_rows

WIDE = ("float32", "float64")
METHODS = (
    *("nll", "log_prob", "cdf", "cdf_below", "log_tail", "log_cdf"),
    *("log_survival", "quantile", "tail_quantile", "interval", "sample"),
    *("mean", "variance", "information", "scale_exponent", "followed"),
    *("class_probabilities", "scale_squared", "marginal", "conditional"),
    *("members", "aleatoric", "epistemic", "total", "cut_points"),
    *("typical_outcome", "inner", "edges", "log_weights"),
    *("variance_of_means", "scale_matrix"),
)
_NAN_IN_NAN_OUT = (*OF_TARGETS, "quantile")


def widened(function):
    """`function` of tensors, computed in float32 if they are narrower."""

    @functools.wraps(function)
    def call(*inputs):
        dtype = ops.dtype(inputs[0])
        if dtype in WIDE:
            return function(*inputs)
        wide = (ops.cast(x, "float32") for x in inputs)
        return ops.cast(function(*wide), dtype)

    return call


def prepare_methods(likelihood):
    """Makes the methods that a likelihood class defines work for all inputs.

    Half precision is not enough for tails, logarithms and random numbers. If
    the prediction has half precision, a method runs on a float32 copy, and its
    result is cast back. If the prediction is a NumPy array, the results are
    NumPy arrays too. Methods that backends compile run on padded rows.
    """
    for name in METHODS:
        found = vars(likelihood).get(name)
        if isinstance(found, property):
            setattr(likelihood, name, property(_prepared(name, found.fget)))
        elif found is not None:
            setattr(likelihood, name, _prepared(name, found))


def _prepared(name, method):
    @functools.wraps(method)
    def call(self, *args, **kwargs):
        if name == "inner" and not isinstance(self.prediction, np.ndarray):
            # A distribution, whose own methods do the rest.
            return method(self)
        plain, convert = _plain(self)
        if name == "quantile":
            args = (_levels(plain, *args, **kwargs),)
            kwargs = {}
        rows = padded_rows(name, plain, (*args, *kwargs.values()))
        if rows is not None:
            plain = plain.map_values(rows.pad)
            args = tuple(map(rows.pad, args))
            kwargs = {key: rows.pad(x) for key, x in kwargs.items()}
        result = method(plain, *args, **kwargs)
        if name in _NAN_IN_NAN_OUT:
            for given in (*args[:1], plain.prediction):
                result = _nan_where_nan(result, given)
        if rows is not None:
            result = keras.tree.map_structure(rows.cut, result)
        if convert is None:
            return result
        return keras.tree.map_structure(convert, result)

    return call


def _plain(likelihood):
    """A distribution of wide tensors, and what its results become."""
    given = likelihood.prediction
    dtype = keras.backend.standardize_dtype(given.dtype)
    is_array = isinstance(given, np.ndarray)
    if dtype in WIDE and not is_array:
        return likelihood, None
    wide = dtype if dtype in WIDE else "float32"
    plain = likelihood.map_values(lambda x: ops.convert_to_tensor(x, wide))

    def convert(x):
        # Class numbers stay integers, and Python numbers do not change.
        if ops.is_tensor(x) and ops.dtype(x) == "float32" != dtype:
            x = ops.cast(x, dtype)
        if not is_array:
            return x
        if ops.is_tensor(x):
            return ops.convert_to_numpy(x)
        return x.as_numpy() if hasattr(x, "as_numpy") else x

    return plain, convert


def _levels(likelihood, p):
    """Probabilities as a tensor. A list of levels gets an axis of its own."""
    is_list = isinstance(p, list | tuple)
    p = ops.convert_to_tensor(p, dtype=likelihood.prediction.dtype)
    shape = tuple(likelihood.prediction.shape)
    outcome = shape[: len(shape) - likelihood.event_rank]
    fits = tuple(p.shape) == outcome or len(outcome) == 0
    if len(p.shape) == 1 and (is_list or not fits):
        return ops.reshape(p, (-1,) + (1,) * len(outcome))
    return p


def _nan_where_nan(result, given):
    given = ops.convert_to_tensor(given)
    trailing = tuple(result.shape)[len(result.shape) - len(given.shape) :]
    if tuple(given.shape) != trailing:
        return result
    return ops.where(ops.isnan(given), float("nan"), result)
