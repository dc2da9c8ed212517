"""The rows of a fit, and their folds."""

import dataclasses

import numpy as np

from keras_likelihood.backend.types import Array


@dataclasses.dataclass
class Rows:
    """Checked rows of a fit: logits `(rows, classes)` and class numbers.

    `columns` are inputs of predicted parameters by name, `(rows, ...)` each.
    """

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
