"""Wraps methods for half precision, NumPy, NaN and lists of quantile levels."""

import functools

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import is_known

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
_OF_TARGETS = ("cdf", "cdf_below", "log_cdf", "log_survival")
_ON_PADDED_ROWS = (
    *(*_OF_TARGETS, "quantile", "log_tail", "tail_quantile", "interval"),
    *("mean", "variance", "information"),
)
_FEWEST_ROWS = 256
"""Smallest number of rows after padding."""


def as_floating(x):
    """A floating-point tensor; integers are cast to the default precision."""
    x = ops.convert_to_tensor(x)
    if keras.backend.is_float_dtype(x.dtype):
        return x
    return ops.cast(x, keras.config.floatx())


def prepare_methods(likelihood):
    """Makes the methods that a likelihood class defines work for all inputs.

    Half precision is not accurate enough for tails, logarithms and random
    numbers. If the prediction has half precision, a method runs on a float32
    copy and its result is cast back. If the prediction is a NumPy array, so are
    the results. Methods that backends compile run on padded rows.
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
            # The result is a distribution, whose methods are wrapped too.
            return method(self)
        plain, convert = _plain(self)
        if name == "quantile":
            args, kwargs = (_levels(plain, *args, **kwargs),), {}
        padding = _padding(name, plain, (*args, *kwargs.values()))
        if padding is not None:
            pad, cut = padding
            plain = plain.map_values(pad)
            args = tuple(map(pad, args))
            kwargs = {key: pad(x) for key, x in kwargs.items()}
        result = method(plain, *args, **kwargs)
        if name in _OF_TARGETS or name == "quantile":
            for given in (*args[:1], plain.prediction):
                result = _nan_where_nan(result, given)
        if padding is not None:
            result = keras.tree.map_structure(cut, result)
        if convert is None:
            return result
        return keras.tree.map_structure(convert, result)

    return call


def _plain(likelihood):
    """A float32 or float64 copy, and a function that converts its results."""
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
    """Probabilities as a tensor, with a new first axis for a list of levels."""
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


def _padding(name, likelihood, arguments):
    """Functions that pad rows and cut results, or `None` for no padding.

    JAX and TensorFlow compile a method for each number of rows, which may take
    seconds. So a call outside of a compiled step repeats the last row, up to
    256 rows or at most a quarter more, and the results are cut.
    """
    shape = tuple(likelihood.prediction.shape)
    values = likelihood.values().values()
    if (
        name not in _ON_PADDED_ROWS
        or keras.backend.backend() == "torch"
        or likelihood.event_rank
        or 0 in (shape or (0,))
        or not all(map(is_known, values))
    ):
        return None
    rank, rows = len(shape), shape[0]
    for x in arguments:
        own = np.shape(x)[-rank:]
        pairs = zip(own[::-1], shape[::-1], strict=False)
        fits = own == shape or (
            name not in _OF_TARGETS and all(a in (1, b) for a, b in pairs)
        )
        # The method itself raises an error for arguments that do not fit.
        if len(own) and not (is_known(x) and fits):
            return None
    step = max(_FEWEST_ROWS, 2 ** (rows.bit_length() - 3))
    padded = -(-rows // step) * step

    def count(x):
        """The number of rows, or `None` if there is no axis of rows."""
        return np.shape(x)[-rank] if len(np.shape(x)) >= rank else None

    def pad(x):
        if count(x) != rows:
            return x
        x, index = _without_compiling(x), np.arange(padded).clip(max=rows - 1)
        take = np.take if isinstance(x, np.ndarray) else ops.take
        return ops.convert_to_tensor(take(x, index, axis=len(x.shape) - rank))

    def cut(x):
        if count(x) != padded:
            return x
        in_front = (slice(None),) * (len(x.shape) - rank)
        kept = _without_compiling(x)[(*in_front, slice(rows))]
        return ops.convert_to_tensor(kept)

    # With a single row, vectors of parameters may look like rows.
    if padded == rows or {count(x) for x in values} - {1, rows, None}:
        return None
    return pad, cut


def _without_compiling(x):
    """`x` as NumPy on JAX, which would compile the indexing per shape."""
    if keras.backend.backend() == "jax" or not ops.is_tensor(x):
        return np.asarray(x)
    return x
