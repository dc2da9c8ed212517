"""The rows of a fit, their folds, and the columns for predicted parameters."""

import dataclasses
from collections.abc import Iterable

import keras
import numpy as np
from scipy import special

from keras_likelihood.backend.operations import library_of
from keras_likelihood.backend.types import Array, Tensor


@dataclasses.dataclass
class Rows:
    """Checked logits `(rows, classes)`, class numbers and other columns."""

    logits: Array
    labels: Array
    weight: Array
    columns: dict[str, Array] = dataclasses.field(default_factory=dict)

    @property
    def features(self) -> Array | None:
        """The features, if there are any."""
        return self.columns.get("features")

    def part(self, index: Array | slice) -> "Rows":
        """Some of the rows."""
        columns = {name: x[index] for name, x in self.columns.items()}
        return Rows(
            self.logits[index], self.labels[index], self.weight[index], columns
        )

    def with_logits(self, logits: Array) -> "Rows":
        """The same rows with other logits."""
        return dataclasses.replace(self, logits=logits)


FOLDS = 3
"""Folds of a cross-validation that chooses between methods."""
_COMMON = 5
"""A row is common if its copies fill more than 1 / 5 of a fold."""


def random_folds(
    rows: Array, more: Array | None, folds: int, seed: int
) -> list[Array]:
    """Sorted row numbers of random folds of almost equal sizes.

    Identical rows share a fold, because a copy would leak the label of a
    held-out row. Very common rows are distributed over all folds: they are not
    copies, but outputs such as probabilities of exactly 0 and 1.
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


MOST_COMPONENTS = 256
_SAMPLE_ROWS = 8192


class FeatureBasis:
    """Centred and scaled features, at most 256 principal directions."""

    def __init__(self, features: Array, weight: Array) -> None:
        # One product is used, because a copy of wide features is slow.
        self.mean = weight.astype(features.dtype) @ features / weight.sum()
        part = slice(None, None, max(1, len(features) // _SAMPLE_ROWS))
        sample = features[part].astype("float64") - self.mean
        weight = weight[part] / weight[part].mean()
        deviation = np.sqrt(weight @ sample**2 / len(sample))
        alive = deviation > 1e-6 * max(deviation.max(initial=0.0), 1e-30)
        self.scale = np.where(alive, deviation, np.inf)
        self.directions = None
        if features.shape[1] > MOST_COMPONENTS:
            sample = sample / self.scale * np.sqrt(weight)[:, None]
            self.directions = _principal(sample.astype("float32"))

    def __call__(self, features: Array) -> Array:
        """Returns the features in this basis, `(rows, components)`."""
        dtype = features.dtype
        if self.directions is None:
            shifted = features - self.mean.astype(dtype)
            return shifted / self.scale.astype(dtype)
        kernel = self.directions / self.scale[:, None]
        projected = features @ kernel.astype(dtype)
        return projected - (self.mean @ kernel).astype(dtype)

    def to_raw(self, weights: Array) -> tuple[Array, Array]:
        """`(kernel, shift)` with `self(x) @ weights == x @ kernel + shift`."""
        if self.directions is not None:
            weights = self.directions @ weights
        kernel = weights / self.scale.reshape((-1,) + (1,) * (weights.ndim - 1))
        return kernel, -(self.mean @ kernel)


def _principal(sample: Array) -> Array:
    # The sample itself is used, because its Gram matrix would take longer.
    start = np.random.default_rng(0).standard_normal(
        (sample.shape[1], MOST_COMPONENTS + 32), dtype="float32"
    )
    basis = np.linalg.qr(sample.T @ (sample @ start))[0]
    basis = np.linalg.qr(sample.T @ (sample @ basis))[0]
    image = sample @ basis
    _, rotation = np.linalg.eigh(image.T @ image)
    return (basis @ rotation[:, -MOST_COMPONENTS:]).astype("float64")


SOURCES: dict[str | None, tuple[str, ...]] = {
    None: (),
    "logits": ("logits",),
    "features": ("features",),
    "all": ("logits", "sorted", "features"),
}
"""The groups of columns of each kind of predicted temperature."""


def raw_columns(
    groups: Iterable[str], z: Tensor, features: Tensor | None
) -> dict[str, Tensor]:
    """The columns of each available group, not standardised."""
    columns = {"features": features}
    if "logits" in groups:
        # A constant added to a row must not change the result, as in a softmax.
        columns["logits"] = log_softmax(z)
        columns["sorted"] = library_of(z).sort(columns["logits"])
    return {k: columns[k] for k in groups if columns.get(k) is not None}


def standardised(
    raw: dict[str, Array], weight: Array
) -> tuple[dict[str, FeatureBasis], dict[str, Array]]:
    """Bases of the groups of columns, and the columns in them, by name.

    The bases do not depend on labels, so all folds share them.
    """
    bases = {name: FeatureBasis(x, weight) for name, x in raw.items()}
    return bases, {name: bases[name](x) for name, x in raw.items()}


def log_softmax(z: Tensor) -> Tensor:
    """Log-probabilities of logits, as an array or a tensor like `z`."""
    of_array = isinstance(z, np.ndarray)
    return (special if of_array else keras.ops).log_softmax(z, axis=-1)
