"""Folds of a cross-validation that keep copies of a row together."""

import numpy as np

_COMMON = 5
"""A row is common if its copies fill more than a fold over this number."""


def random_folds(rows, more, folds: int, seed: int) -> list[np.ndarray]:
    """Row numbers of random folds of almost equal sizes, each sorted.

    Rows that are equal bit for bit, in `rows` and in `more`, share a fold. A
    copy in another fold would reveal the label of a row that is held out. Rows
    that are very common are separate: they are not copies, but outputs of a
    model that has few different ones, such as probabilities of exactly 0 and
    1.
    """
    count = len(rows)
    if count < folds:
        raise ValueError(
            f"{folds} folds need as many examples. Received: {count}"
        )
    # Folds with equal shares of the classes would hide how uncertain these
    # shares are, and favour maps with many weights.
    order = np.random.default_rng(seed).permutation(count)
    group = equal_rows(rows, more)[order]
    common = np.bincount(group)[group] * _COMMON * folds > count
    group[common] = group.max() + 1 + np.arange(common.sum())
    _, first, group, sizes = np.unique(
        group, return_index=True, return_inverse=True, return_counts=True
    )
    # Groups take turns, the largest first, so that folds are almost equal.
    turn = np.empty(len(sizes), int)
    turn[np.lexsort((first, -sizes))] = np.arange(len(sizes))
    fold = turn[group] % folds
    return [np.sort(order[fold == number]) for number in range(folds)]


def equal_rows(rows, more=None) -> np.ndarray:
    """A number for each row. Only equal rows have the same number."""
    columns = [rows] if more is None else [rows, more]
    # Hashes need less memory than copies of all columns.
    keys = [
        hash(tuple(row.tobytes() for row in parts))
        for parts in zip(*columns, strict=True)
    ]
    return np.unique(keys, return_inverse=True)[1]
