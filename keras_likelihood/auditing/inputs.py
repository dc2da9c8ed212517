"""Checks of what users hand to an audit."""

import keras
import numpy as np


def as_arrays(x, y):
    """Returns inputs and labels as arrays of one length, free of NaN.

    Args:
        x: an array, or a list, tuple or dict of arrays.
        y: an array.
    """
    if y is None:
        raise ValueError(
            "An audit judges labels: give arrays `x` and `y`. Received: y=None"
        )
    if hasattr(x, "element_spec") or hasattr(x, "__next__"):
        raise ValueError(
            "`x` must be an array, or several of one length. "
            f"Received: {type(x).__name__}"
        )
    several = isinstance(x, dict | tuple | list) and _holds_arrays(x)
    x = keras.tree.map_structure(as_numpy, x) if several else as_numpy(x)
    y = as_numpy(y)
    if y.ndim == 0 or len(y) == 0:
        raise ValueError(
            f"`y` must hold one label an example. Received: shape {y.shape}"
        )
    for part in keras.tree.flatten(x):
        if part.ndim == 0 or len(part) != len(y):
            raise ValueError(
                "`x` and `y` must have one entry an example. "
                f"Received: x of shape {part.shape} and y of shape {y.shape}"
            )
        _refuse_nan(part, "x")
    _refuse_nan(y, "y")
    return x, y


def _holds_arrays(x):
    parts = x.values() if isinstance(x, dict) else x
    return any(hasattr(part, "shape") for part in parts)


def as_numpy(values) -> np.ndarray:
    """An array of whatever holds values: a list, a tensor."""
    if isinstance(values, np.ndarray):
        return values
    if keras.ops.is_tensor(values):
        return keras.ops.convert_to_numpy(values)
    return np.asarray(values)


def _refuse_nan(values, name):
    if values.dtype.kind != "f":
        return
    # The sum is not finite if any entry is not; one pass, no mask.
    if np.isfinite(values.sum(dtype="float64")):
        return
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"`{name}` must be finite. Received: NaN or infinite values in "
            f"{int(bad.sum())} example(s), the first at {int(bad.argmax())}"
        )
