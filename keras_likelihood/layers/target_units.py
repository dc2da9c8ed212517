"""Units of the targets."""

from typing import Any

import numpy as np

from keras_likelihood.backend.training_rows import (
    joined,
    numpy_batches,
    to_numpy,
)
from keras_likelihood.backend.types import Tensor
from keras_likelihood.likelihoods.checks import as_numbers, as_weight

_NORMAL = 1.482602218505602
"""Ratio of standard deviation to median deviation of a normal."""


def collect_targets(y: Any, sample_weight: Any = None) -> Any:
    """Targets and weights of arrays, or of all batches of a dataset.

    Batches are `y`, `(x, y)` or `(x, y, sample_weight)`.
    """
    if not _is_dataset(y):
        return to_numpy((y, sample_weight))
    batches = []
    for batch in numpy_batches(y):
        parts = batch if isinstance(batch, list | tuple) else (None, batch)
        batches.append((parts[1], parts[2] if len(parts) > 2 else None))
    targets, weights = zip(*batches, strict=True)
    return joined(targets), None if weights[0] is None else joined(weights)


def centre_and_spread(
    y: Any, units: int, weight: Any = None, *, one_spread: bool = False
) -> Any:
    """Centre and spread of each channel, `(units,)`.

    See `LikelihoodHead.adapt`. If all targets are equal, the spread is 1.
    Targets of weight 0 may have any value. With `one_spread` all channels
    share one spread.
    """
    y = as_numbers(y)
    if units != 1 and y.shape[-1:] != (units,):
        raise ValueError(
            f"Targets must have shape (n, ..., {units}). "
            f"Received: shape {y.shape}"
        )
    whole = np.size(weight) == y.size or (units == 1 and y.shape[-1:] != (1,))
    weight = as_weight(weight, y.shape if whole else y.shape[:-1])
    rows = y.astype("float64").reshape(-1, units)
    weight = weight.reshape(len(rows), -1) * np.ones(units)
    counts = weight > 0
    bad = counts & ~np.isfinite(rows)
    if bad.any() or not counts.any(axis=0).all():
        raise ValueError(
            "Targets must be finite, with at least one weight > 0. Received: "
            f"{len(rows)} rows, {bad.sum()} values not finite"
        )
    centre = np.zeros(units)
    errors: list[Any] = []
    for i, ones in enumerate(counts.T):
        column, own = rows[ones, i], weight[ones, i]
        centre[i] = _median(column, own)
        errors.append((np.abs(column - centre[i]), own))
    if one_spread:
        errors = [tuple(map(np.concatenate, zip(*errors, strict=True)))]
    spread = [_spread(*column) for column in errors]
    return centre, np.broadcast_to(np.array(spread), (units,))


def _spread(errors: Any, weight: Any) -> Any:
    robust = _NORMAL * _median(errors, weight)
    return robust or np.sqrt(np.average(errors**2, weights=weight)) or 1.0


def _median(values: Tensor, weight: Any) -> Any:
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    half = 0.5 * below[-1]
    ends = np.searchsorted(below, half), np.searchsorted(below, half, "right")
    return values[order[[*ends]]].mean()


def _is_dataset(y: Any) -> Any:
    if isinstance(y, list | tuple):
        return isinstance(y[0], tuple) if len(y) else False
    return not hasattr(y, "shape") and not isinstance(y, dict)
