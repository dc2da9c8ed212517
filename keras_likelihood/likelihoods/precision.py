"""Float16 and bfloat16, computed in float32."""

import copy
import functools

import keras
from keras import ops

WIDE = ("float32", "float64")
METHODS = (
    *("nll", "cdf", "cdf_below", "quantile", "interval", "sample", "mean"),
    *("information", "scale_exponent", "variance", "log_tail"),
)


def widened(function):
    """`function` of tensors, computed in float32 if they are narrower."""

    @functools.wraps(function)
    def call(*inputs):
        dtype = ops.dtype(inputs[0])
        if dtype in WIDE:
            return function(*inputs)
        inputs = (ops.cast(x, "float32") for x in inputs)
        return ops.cast(function(*inputs), dtype)

    return call


def widen_methods(likelihood):
    """Makes the methods that a likelihood class defines work in float32.

    Half precision is not enough for tails, logarithms and random numbers. If
    the prediction has half precision, a method runs on a float32 copy, and its
    result is cast back.
    """
    for name in METHODS:
        if name in vars(likelihood):
            setattr(likelihood, name, _widened_method(vars(likelihood)[name]))


def _widened_method(method):
    @functools.wraps(method)
    def call(self, *args, **kwargs):
        dtype = ops.dtype(self.prediction)
        if dtype in WIDE:
            return method(self, *args, **kwargs)
        result = method(_wide_copy(self), *args, **kwargs)
        return keras.tree.map_structure(lambda x: _narrowed(x, dtype), result)

    return call


def _wide_copy(likelihood):
    wide = copy.copy(likelihood)
    for name in ("prediction", *(p.name for p in likelihood.parameters)):
        setattr(wide, name, ops.cast(getattr(likelihood, name), "float32"))
    return wide


def _narrowed(x, dtype):
    # Class numbers stay integers, and Python numbers do not change.
    if ops.is_tensor(x) and ops.dtype(x) == "float32":
        return ops.cast(x, dtype)
    return x
