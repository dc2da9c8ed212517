"""Missing values of tables of numbers."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array


def fill_missing(x: Any) -> Array:
    """Fills the missing values (NaN) of a table.

    A missing value becomes the median of its column. For each column with
    missing values an indicator column is added at the end, 1 where the value
    is missing and 0 elsewhere, because missingness may be informative.

    >>> x = np.array([[1.0, 5.0], [3.0, np.nan], [4.0, 7.0]])
    >>> kl.auditing.fill_missing(x)
    array([[1., 5., 0.],
           [3., 6., 1.],
           [4., 7., 0.]])

    Args:
        x: `(n, features)`. Arrays of other shapes are returned unchanged.

    Returns:
        `(n, features + columns with missing values)`.
    """
    table: Array = np.asarray(x)
    missing = _missing(table)
    if not missing.any():
        return table
    # An empty column has no median.
    middle = np.nanmedian(np.where(missing.all(axis=0), 0, table), axis=0)
    filled = np.where(missing, middle, table)
    return np.column_stack([filled, missing[:, missing.any(axis=0)]])


def filled_names(x: Any, names: list[str]) -> list[str]:
    """Names of the columns that `fill_missing` returns."""
    some = np.flatnonzero(_missing(x).any(axis=0))
    return [*names, *(f"{names[at]} is missing" for at in some)]


def _missing(x: Array) -> Array:
    is_table = x.ndim == 2 and x.dtype.kind == "f"
    return np.isnan(x) if is_table else np.zeros((1, 1), bool)
