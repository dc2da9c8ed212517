"""Checks of labels, targets and probabilities."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array


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


def as_targets(y: Array, shape: tuple[int, ...]) -> Array:
    """Targets of the shape of the predictions, as float64."""
    if y.dtype.kind not in "biuf":
        raise ValueError(f"Targets must be numbers. Received: dtype {y.dtype}")
    if y.shape == shape[:-1] and shape[-1] == 1:
        y = y[..., None]
    if y.shape != shape:
        raise ValueError(
            f"Targets must have the shape of the prediction, {shape}. "
            f"Received: {y.shape}"
        )
    return y.astype("float64")
