"""Checks and reshapes labels, targets, and outputs of models."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import (
    aligned,
    as_numbers,
    check_argument,
    finite_numbers,
)

LOGIT_BOUND = 87.0
"""Largest distance of a logit from the largest logit of its row.

Smaller logits are raised. As float32, their probabilities are zero.
"""


def are_probabilities(rows: Array, low: Any = None, high: Any = None) -> bool:
    """Whether rows of several columns lie in [0, 1] and sum to one."""
    low = rows.min() if low is None else low
    high = rows.max() if high is None else high
    if rows.shape[1] == 1 or low < 0 or high > 1:
        return False
    return np.allclose(rows.sum(axis=1), 1.0, atol=1e-3)


def log_probabilities(p: Array, least: float) -> Array:
    """`log p`, or the log-odds of one column, with `p` at least `least`."""
    if p.shape[-1] > 1:
        return np.log(np.maximum(p, least))
    p = np.clip(p.astype("float64"), least, 1 - least)
    return np.log(p) - np.log1p(-p)


def as_labels(labels: Any, shape: Any, weight: Array | None = None) -> Array:
    """Class numbers `(rows,)`; labels of weight zero are not checked."""
    labels, shape = np.asarray(labels), tuple(shape)
    classes = max(shape[-1], 2)
    if labels.dtype.kind not in "biuf":
        raise ValueError(
            "Labels must be class numbers. An audit takes the names of the "
            f"classes as `label_names`. Received: dtype {labels.dtype}"
        )
    if labels.shape == shape and is_one_hot(labels) and shape[-1] > 1:
        return labels.argmax(axis=-1).ravel()
    if labels.shape not in (shape[:-1], (*shape[:-1], 1)):
        raise ValueError(
            f"Labels for logits of shape {shape} must be one-hot, or class "
            f"numbers of shape {shape[:-1]}. Received: shape {labels.shape} "
            f"with values {np.unique(labels)[:5]}"
        )
    flat = labels.ravel()
    valid = in_range(flat, classes)
    wrong = ~valid if weight is None else ~valid & (weight > 0)
    if wrong.any():
        raise ValueError(
            f"Labels must be whole numbers from 0 to {classes - 1}. "
            f"Received: {np.unique(flat[wrong])[:5]}"
        )
    return np.where(valid, flat, 0).astype("int64")


def is_one_hot(labels: Array) -> bool:
    """Whether each row has a single one, and zeros."""
    binary = np.isin(labels, (0, 1)).all()
    return bool(binary and (labels.sum(axis=-1) == 1).all())


def in_range(labels: Array, classes: int) -> Array:
    """Which labels are whole numbers from 0 to `classes - 1`."""
    return (labels == np.floor(labels)) & (labels >= 0) & (labels < classes)


def as_targets(y: Any, shape: tuple[int, ...]) -> Array:
    """Targets of the shape of the predictions, as float64."""
    return aligned(as_numbers(y), [shape], "Targets").astype("float64")


def as_column(values: Any, name: str) -> Array:
    """Returns finite numbers `(n,)`, as float64, from `(n,)` or `(n, 1)`."""
    values = finite_numbers(values, f"`{name}`")
    shape = values.shape
    fits = shape[1:] in ((), (1,)) and shape != () and values.size
    check_argument(name, f"shape {shape}", fits, "of shape (n,) or (n, 1)")
    return values.reshape(-1)


def location_and_scale(prediction: Any, scale: Any) -> tuple[Array, Array]:
    """Predictions and their scales `(n,)`; `None` means a scale of 1."""
    location = as_column(prediction, "prediction")
    if scale is None:
        return location, np.ones_like(location)
    base = as_column(scale, "scale")
    if len(base) != len(location) or not (base > 0).all():
        raise ValueError(
            "`scale` must be > 0 and of the prediction's length. "
            f"Received: {len(base)} values from {base.min():.3g}"
        )
    return location, base


def as_logits(
    values: Any, from_logits: bool, floor: float | None = None
) -> tuple[Array, tuple[int, ...], float | None]:
    """`(rows, classes)` logits, the shape of `values`, and a floor.

    One column, or a plain vector, is the logit (or probability) of class 1 and
    becomes the pair `(-z/2, z/2)`. A logit that is more than `LOGIT_BOUND`
    below the largest of its row is raised to that distance. Probabilities of
    exactly zero, such as those of a forest, become `floor`: half the smallest
    positive one of the calibration data.
    """
    values = _as_floats(values, "float64")
    if values.ndim == 0 or values.size == 0:
        raise ValueError(
            "`logits` must have shape (n, ..., classes) with n > 0. "
            f"Received: shape {values.shape}"
        )
    values = values[:, None] if values.ndim == 1 else values
    rows = values.reshape(-1, values.shape[-1])
    # All checks use one pass, because these arrays may fill the memory.
    low, high = rows.min(axis=1), rows.max(axis=1)
    one, least, most = rows.shape[1] == 1, low.min(), high.max()
    if not np.isfinite([least, most]).all():
        raise ValueError(
            "`logits` must be finite. Received: "
            f"{int((~np.isfinite(rows)).sum())} NaN or infinite values"
        )
    sum_to_one = are_probabilities(rows, least, most)
    if from_logits and sum_to_one:
        raise ValueError(
            "`logits` are probabilities: rows lie in [0, 1] and sum to one. "
            "Pass `from_logits=False` for these. Received: from_logits=True"
        )
    if from_logits:
        rows = np.concatenate([-rows / 2, rows / 2], axis=1) if one else rows
    else:
        if not sum_to_one and not (one and 0 <= least <= most <= 1):
            raise ValueError(
                "With `from_logits=False`, `logits` must be probabilities in "
                "[0, 1] that sum to one over the classes. Received: values "
                f"from {least:.3g} to {most:.3g}"
            )
        rows = rows.astype("float64")
        rows = np.concatenate([1 - rows, rows], axis=1) if one else rows
        if floor is None:
            floor = 0.5 * rows.min(where=rows > 0, initial=1.0)
        rows = np.log(np.maximum(np.where(rows > 0, rows, floor), 1e-300))
    high = rows.max(axis=1, keepdims=True)
    if (high[:, 0] - rows.min(axis=1)).max() > LOGIT_BOUND:
        rows = np.maximum(rows, high - LOGIT_BOUND)
    return rows, values.shape, floor


def _as_floats(values: Any, default: str) -> Array:
    """An array of float32 or wider; non-float types become `default`."""
    values = np.asarray(values)
    if values.dtype.kind not in "biufO" and values.dtype.name != "bfloat16":
        raise ValueError(
            f"Outputs must be numbers. Received: dtype {values.dtype}"
        )
    if values.dtype.kind != "f":
        return values.astype(default)
    return values if values.itemsize >= 4 else values.astype("float32")


def as_features(features: Any, shape: tuple[int, ...]) -> Array:
    """Returns `(rows, columns)` features for outputs of leading `shape`."""
    features = _as_floats(features, "float32")
    if features.ndim == 1:
        features = features[:, None]
    wrong = int((~np.isfinite(features)).sum())
    if features.shape[: len(shape)] != shape or wrong:
        raise ValueError(
            f"`features` must have shape {(*shape, 'columns')} and be finite. "
            f"Received: shape {features.shape}, {wrong} NaN or infinite values"
        )
    return features.reshape(int(np.prod(shape)), -1)


def check_fitted(fitted: Any, attribute: str, method: str) -> None:
    """Raises an error if an object lacks an attribute set by fitting."""
    if not hasattr(fitted, attribute):
        raise ValueError(
            f"{type(fitted).__name__} must be fitted before `{method}`. "
            f"Received: an object without `{attribute}`, which `fit` sets"
        )


def widest(values: Any) -> Array:
    """An array in float64 if the backend supports it."""
    # JAX computes in float32 by default.
    wide = keras.backend.backend() != "jax"
    return np.asarray(values, dtype="float64" if wide else "float32")
