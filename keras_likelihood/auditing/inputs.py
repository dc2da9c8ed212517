"""Checks the data passed to an audit."""

import keras
import numpy as np

from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.reading.targets import as_labels
from keras_likelihood.tables.columns import refuse_nan

TASKS = ("classification", "regression")
FEWEST = 10
LARGEST = 1e15
"""Squares of larger numbers are close to the limit of single precision."""


def check_options(task, **counts) -> None:
    """Raises an error for an unknown task, or a count that is not >= 1."""
    is_known = task in (None, *TASKS)
    check_argument("task", task, is_known, f"one of {TASKS} or None")
    for name, value in counts.items():
        fits = int(value) == value and value >= 1
        check_argument(name, value, fits, "a whole number >= 1")


def as_numpy(values) -> np.ndarray:
    """Converts a list or a tensor to a NumPy array."""
    if keras.ops.is_tensor(values):
        return keras.ops.convert_to_numpy(values)
    return np.asarray(values)


def as_arrays(x, y, missing: bool = False):
    """Returns finite arrays of equal length; `x` may be a structure."""
    if y is None:
        raise ValueError(
            "`y` must be an array of labels or targets. Received: y=None"
        )
    fits = not hasattr(x, "element_spec") and not hasattr(x, "__next__")
    check_argument("x", x, fits, "an array, or several of equal length")
    parts = x.values() if isinstance(x, dict) else x
    several = isinstance(x, dict | tuple | list) and any(
        hasattr(part, "shape") for part in parts
    )
    x = keras.tree.map_structure(as_numpy, x) if several else as_numpy(x)
    y = as_numpy(y)
    for part in [y, *keras.tree.flatten(x)]:
        if part.ndim == 0 or len(part) != len(y) or not len(y):
            raise ValueError(
                "`x` and `y` must have one entry per example. "
                f"Received: x of shape {part.shape} and y of shape {y.shape}"
            )
        if missing and part is not y and part.dtype.kind == "f":
            part = np.where(np.isnan(part), 0, part)
        refuse_nan(part, "`y`" if part is y else "`x`")
    return x, y


def fill_missing(x) -> np.ndarray:
    """Fills the missing values (NaN) of a table.

    A missing value becomes the median of its column. For each column with
    missing values an indicator column is added at the end, 1 where the value
    is missing and 0 elsewhere, because missingness may be informative.

    >>> fill_missing(np.array([[1.0, 5.0], [3.0, np.nan], [4.0, 7.0]]))
    array([[1., 5., 0.],
           [3., 6., 1.],
           [4., 7., 0.]])

    Args:
        x: `(n, features)`. Arrays of other shapes are returned unchanged.

    Returns:
        `(n, features + columns with missing values)`.
    """
    x = np.asarray(x)
    if x.ndim != 2 or x.dtype.kind != "f":
        return x
    missing = np.isnan(x)
    some = missing.any(axis=0)
    if not some.any():
        return x
    # An empty column has no median.
    middle = np.nanmedian(np.where(missing.all(axis=0), 0, x), axis=0)
    filled = np.where(missing, middle, x)
    return np.concatenate([filled, missing[:, some].astype(x.dtype)], axis=1)


def as_inputs(x, y) -> tuple[np.ndarray, np.ndarray]:
    """Returns images or a table, and labels."""
    x, y = as_arrays(x, y)
    kind = getattr(x, "dtype", np.dtype(object)).kind
    if kind not in "biuf" or x.ndim not in (2, 3, 4) or 0 in x.shape:
        raise ValueError(
            "Without a model, `x` must be an array of numbers: a table "
            "(n, features) or images (n, height, width) or (n, height, width, "
            f"channels). Received: {type(x).__name__} of kind {kind} and shape "
            f"{np.shape(x)}"
        )
    if max(abs(float(x.min())), abs(float(x.max()))) > LARGEST:
        raise ValueError(
            f"`x` must lie between {-LARGEST:g} and {LARGEST:g}. "
            f"Received: values from {x.min():g} to {x.max():g}"
        )
    return x, y


def as_classes(y, classes: int | None = None) -> tuple[np.ndarray, int]:
    """Returns class numbers `(n,)` and the number of classes."""
    if y.ndim == 2 and y.shape[1] > 1:
        fits, allowed = classes in (None, y.shape[1]), f"{y.shape[1]} names"
        check_argument("label_names", classes, fits, allowed)
        classes = y.shape[1]
    elif classes is None:
        highest = y.max() if y.dtype.kind in "biuf" else 1
        classes = max(int(min(np.ceil(highest), 1e9)) + 1, 2)
    labels = as_labels(y, (len(y), classes))
    if classes < 2 or (labels == labels[0]).all():
        raise ValueError(
            "An audit needs labels of at least two classes. "
            f"Received: {len(y)} labels of class {labels[0]}"
        )
    if classes > len(y):
        raise ValueError(
            "An audit needs at least as many examples as classes, which are "
            "numbered from 0. Use task='regression' if the labels are "
            f"quantities. Received: {len(y)} examples and {classes} classes"
        )
    return labels, classes


def as_quantities(y) -> np.ndarray:
    """Returns targets `(n, 1)` that are not all the same."""
    is_column = y.dtype.kind in "biuf" and y.size == len(y)
    if not is_column or len(y) < FEWEST or np.ptp(y) == 0:
        raise ValueError(
            f"Without a model, an audit of targets needs at least {FEWEST} "
            "examples, one number per example, and targets that differ. "
            f"Received: {y.dtype} of shape {y.shape}, the first {y[0]}"
        )
    return y.reshape(-1, 1).astype("float64")
