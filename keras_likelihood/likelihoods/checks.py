"""Checks of shapes, targets and numbers."""

import contextlib
from typing import Any

import numpy as np
from keras import ops

from keras_likelihood.backend.types import Array, Shape, Tensor


def as_numbers(values: Any, name: str = "Targets") -> Array:
    """Converts to an array of numbers, or raises an error."""
    array: Array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array
    raise ValueError(f"{name} must be numbers. Received: dtype {array.dtype}")


def finite_numbers(values: Any, name: str = "Targets") -> Array:
    """Converts to finite float64, also objects such as a column of pandas."""
    values = np.asarray(values)
    if values.dtype == object:
        with contextlib.suppress(TypeError, ValueError):
            values = values.astype("float64")
    array = as_numbers(values, name).astype("float64")
    if bad := (~np.isfinite(array)).sum():
        raise ValueError(
            f"{name} must be finite. Received: {bad} values that are NaN, "
            "None or infinite"
        )
    return array


def to_float64(values: Any) -> Array:
    """Converts a tensor or array to a float64 NumPy array."""
    array: Array = ops.convert_to_numpy(values)
    return array.astype("float64")


def as_weight(weight: Any, shape: tuple[int, ...]) -> Array:
    """Flattened weights. The input may omit trailing axes of `shape`."""
    weight = np.asarray(1.0 if weight is None else weight, dtype="float64")
    if weight.shape == shape[: weight.ndim]:
        extra = (1,) * (len(shape) - weight.ndim)
        weight = np.broadcast_to(weight.reshape(weight.shape + extra), shape)
    fits = weight.size == np.prod(shape) and np.isfinite(weight).all()
    if not fits or (weight < 0).any():
        raise ValueError(
            f"`sample_weight` must be finite, >= 0 and of shape {shape}. "
            f"Received: shape {weight.shape} with {(~(weight >= 0)).sum()} "
            "negative or NaN values"
        )
    if not weight.any():
        # scikit-learn's estimator checks expect this message.
        raise ValueError(
            "Sample weights must contain at least one non-zero number. "
            f"Received: sample_weight={weight.ravel()[:5]}"
        )
    flat: Array = weight.ravel()
    return flat


def fits(received: Shape, expected: Shape) -> bool:
    """Whether two shapes are equal, as far as they are known."""
    return len(received) == len(expected) and all(
        r == e or r is None or e is None
        for r, e in zip(received, expected, strict=True)
    )


def aligned(y: Any, allowed: Any, what: str, draws: bool = False) -> Any:
    """Targets in one of the allowed shapes, or an error.

    An axis of length 1 at the end, or before a pair of bounds, may be missing
    or additional. With `draws` there may be further first axes.
    """
    received = tuple(y.shape)
    if received in allowed:
        return y
    for expected in allowed:
        first = max(len(received) - len(expected), 0) if draws else 0
        if fits(received[first:], expected):
            return y
    for expected in allowed:
        if fits((*received, 1), expected):
            return y[..., None]
        if fits(received, (*expected, 1)):
            return y[..., 0]
        if expected[-2:] == (1, 2) and fits(received, (*expected[:-2], 2)):
            return y[..., None, :]
    shapes = " or ".join(map(str, dict.fromkeys(allowed)))
    raise ValueError(
        f"{what} must have the shape {shapes}. Received: {received}"
    )


def check_argument(name: str, value: Any, fits: Any, allowed: str) -> None:
    """Raises an error with the allowed values, unless `fits` is true.

    If the text of the received value is long, its shape stands for it, or the
    text is cut.
    """
    if not fits:
        received = repr(value)
        if len(received) > 200:
            shape = getattr(value, "shape", None)
            received = f"{received[:200]}..."
            received = f"an array of shape {shape}" if shape else received
        raise ValueError(f"`{name}` must be {allowed}. Received: {received}")


def check_seed(name: str, value: Any) -> None:
    """Raises an error for an integer that NumPy does not take as a seed."""
    is_seed = not isinstance(value, int | np.integer) or 0 <= value < 2**32
    check_argument(name, value, is_seed, "an integer from 0 to 2**32 - 1")


def check_coverage(value: float) -> None:
    check_argument("coverage", value, 0 < value < 1, "strictly between 0 and 1")


def check_size(name: str, value: Any, least: int, note: Tensor = "") -> None:
    """Raises an error for sizes out of range, which a file may contain."""
    fits = isinstance(value, int) and least <= value <= 1000
    allowed = f"a whole number from {least} to 1000{note}"
    check_argument(name, value, fits, allowed)
