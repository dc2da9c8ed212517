"""Prepares calls of methods: dtypes, targets, NaN, levels and rows."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.compiled import is_known
from keras_likelihood.backend.types import Array, Shape, Tensor

WIDE = ("float32", "float64")
_FEWEST_ROWS = 256
"""Smallest number of rows after padding."""


def method(
    *,
    targets: bool = False,
    by_row: bool = False,
    levels: bool = False,
    inside: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Declares a method of a likelihood whose results have its dtype.

    With half precision, which is not accurate enough for tails, the method runs
    on a float32 copy and its result is cast back. If the prediction is a NumPy
    array, so are the results. Methods of subclasses are declared like those
    that they override.

    Args:
        targets: whether the first argument is targets, which are matched to
            the shape of the prediction.
        by_row: whether it is called outside of compiled steps. Backends that
            compile it run it on padded rows. NaN targets give NaN.
        levels: whether the only argument is a probability, or a list of
            probabilities, which are then the first axis of the result.
        inside: a function `(method, self, *args)` that calls the method with
            possible arguments only, and completes its result.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            plain, convert = _plain(self)
            if kwargs:
                bound = signature.bind(self, *args, **kwargs)
                bound.apply_defaults()
                args = bound.args[1:]
            if targets:
                y = plain.match_target(args[0], plain.prediction)
                args = (y, *args[1:])
            if levels:
                args = (_levels(plain, args[0]),)
            # Bounds have one axis more than rows.
            bounds = targets and plain.takes_bounds
            run = functools.partial(inside, function) if inside else function
            padding = _padding(plain, args) if by_row and not bounds else None
            if padding is None:
                result = run(plain, *args)
            else:
                pad, cut = padding
                result = run(plain.map_values(pad), *map(pad, args))
                result = keras.tree.map_structure(cut, result)
            if by_row and (targets or levels):
                marks = plain.outcomes_like()
                marks = marks if bounds else marks + args[0]
                result = ops.where(ops.isnan(marks), float("nan"), result)
            if convert is None:
                return result
            return keras.tree.map_structure(convert, result)

        vars(call)["declare"] = declare
        return call

    return declare


def declare_overrides(likelihood: type) -> None:
    """Declares the methods of a class like those that they override."""
    for name, own in list(vars(likelihood).items()):
        function = getattr(own, "fget", own)
        inherited = [vars(b).get(name) for b in likelihood.__mro__[1:]]
        functions = [getattr(b, "fget", b) for b in inherited]
        declared = [getattr(f, "declare", None) for f in functions]
        declare = next(filter(None, declared), None)
        if declare and function and not getattr(function, "declare", None):
            kind = property if isinstance(own, property) else lambda f: f
            setattr(likelihood, name, kind(declare(function)))


def _plain(likelihood: Any) -> tuple[Any, Callable[[Any], Any] | None]:
    """A float32 or float64 likelihood, and what converts its results."""
    dtype = keras.backend.standardize_dtype(likelihood.prediction.dtype)
    is_array = isinstance(likelihood.prediction, np.ndarray)
    if dtype in WIDE and not is_array:
        return likelihood, None
    wide = dtype if dtype in WIDE else "float32"
    plain = likelihood.map_values(lambda x: ops.convert_to_tensor(x, wide))

    def convert(x: Any) -> Any:
        if hasattr(x, "map_values"):
            return x.map_values(convert)
        # Class numbers stay integers, and Python numbers do not change.
        if ops.is_tensor(x) and ops.dtype(x) == "float32" != dtype:
            x = ops.cast(x, dtype)
        return ops.convert_to_numpy(x) if is_array and ops.is_tensor(x) else x

    return plain, convert


def _levels(likelihood: Any, p: Any) -> Tensor:
    """Probabilities as a tensor, with a new first axis for a list of levels."""
    is_list = isinstance(p, list | tuple)
    p = ops.convert_to_tensor(p, dtype=likelihood.prediction.dtype)
    outcome = tuple(likelihood.outcomes_like().shape)
    fits = tuple(p.shape) == outcome or len(outcome) == 0
    if len(p.shape) == 1 and (is_list or not fits):
        return ops.reshape(p, (-1,) + (1,) * len(outcome))
    return p


def _padding(likelihood: Any, arguments: tuple[Any, ...]) -> Any:
    """Functions that pad rows and cut results, or `None` for no padding.

    JAX and TensorFlow compile a method for each number of rows, which may take
    seconds. So a call outside of a compiled step repeats the last row, up to
    256 rows or at most a quarter more, and the results are cut.
    """
    shape: Shape = tuple(likelihood.prediction.shape)
    values = [*likelihood.values().values(), *arguments]
    is_eager = keras.backend.backend() == "torch"
    if is_eager or likelihood.event_rank or not shape or 0 in shape:
        return None
    if not all(map(is_known, values)):
        return None
    rank, rows = len(shape), int(shape[0] or 0)
    step = max(_FEWEST_ROWS, 2 ** (rows.bit_length() - 3))
    padded = -(-rows // step) * step

    def count(x: Any) -> int | None:
        """The number of rows, or `None` if there is no axis of rows."""
        return np.shape(x)[-rank] if len(np.shape(x)) >= rank else None

    # With a single row, vectors of parameters may look like rows.
    if padded == rows or {count(x) for x in values} - {1, rows, None}:
        return None

    def select(x: Any, size: int, index: Array) -> Any:
        if count(x) != size:
            return x
        axis = len(np.shape(x)) - rank
        if keras.backend.backend() == "tensorflow":
            # A gradient tape may record the call.
            return ops.take(x, index, axis=axis)
        # JAX would compile a selection of tensors for each number of rows.
        return ops.convert_to_tensor(np.asarray(x).take(index, axis))

    every = np.arange(padded)
    return (
        lambda x: select(x, rows, every.clip(max=rows - 1)),
        lambda x: select(x, padded, every[:rows]),
    )
