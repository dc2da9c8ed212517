"""Checks, reshapes and splits the inputs of recalibrators."""

import dataclasses
from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.reading.targets import are_probabilities

LOGIT_BOUND = 30.0
"""Largest distance of a logit from the largest logit of its row.

Smaller logits are raised. Their probabilities are below 1e-13, and their exact
size is meaningless. But a few labels on these logits would dominate a fit.
"""


@dataclasses.dataclass
class Rows:
    """Checked rows of a fit: logits `(rows, classes)` and class numbers."""

    logits: Array
    labels: Array
    features: Array | None
    weight: Array

    def part(self, index: Array | slice) -> "Rows":
        """Some of the rows."""
        features = None if self.features is None else self.features[index]
        return Rows(
            self.logits[index], self.labels[index], features, self.weight[index]
        )

    def with_logits(self, logits: Array) -> "Rows":
        """The same rows with other logits."""
        return dataclasses.replace(self, logits=logits)


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


def refuse_weights(weight: Array | None) -> None:
    """Raises an error if examples have different weights."""
    if weight is not None and np.unique(weight).size > 1:
        raise ValueError(
            "`sample_weight` must be the same for all examples: the guarantee "
            "of a conformal calibration needs exchangeable examples. Leave "
            "out examples instead. Received: different weights"
        )


def check_fitted(fitted: Any, attribute: str, method: str) -> None:
    """Raises an error if an object lacks an attribute set by fitting."""
    if not hasattr(fitted, attribute):
        raise ValueError(
            f"{type(fitted).__name__} must be fitted before `{method}`. "
            f"Received: an object without `{attribute}`, which `fit` sets"
        )


_COMMON = 5
"""A row is common if its copies fill more than 1 / 5 of a fold."""


def random_folds(
    rows: Array, more: Array | None, folds: int, seed: int
) -> list[Array]:
    """Sorted row numbers of random folds of almost equal sizes.

    Identical rows, in `rows` and in `more`, share a fold, because a copy in
    another fold would leak the label of a held-out row. Very common rows are
    distributed over all folds: they are not copies, but outputs of a model with
    few distinct values, such as probabilities of exactly 0 and 1.
    """
    count = len(rows)
    if count < folds:
        raise ValueError(
            f"{folds} folds need at least {folds} examples. Received: {count}"
        )
    # Stratified folds would hide how uncertain the shares of the classes are,
    # and favour maps with many weights.
    order = np.random.default_rng(seed).permutation(count)
    columns = [rows] if more is None else [rows, more]
    # Hashes need less memory than copies of all columns.
    keys = [hash(tuple(map(bytes, row))) for row in zip(*columns, strict=True)]
    group = np.unique(keys, return_inverse=True)[1][order]
    common = np.bincount(group)[group] * _COMMON * folds > count
    group[common] = count + np.arange(common.sum())
    _, first, group, sizes = np.unique(
        group, return_index=True, return_inverse=True, return_counts=True
    )
    # Groups are assigned in turn, largest first, for almost equal folds.
    turn = np.empty(len(sizes), int)
    turn[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    fold = turn[group] % folds
    return [np.sort(order[fold == number]) for number in range(folds)]
