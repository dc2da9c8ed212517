"""Paired comparisons and mean ranks, as required by `docs/protocol.md`."""

import numpy as np
from scipy import stats

LEVEL = 0.95


def difference(first, second, *, overlap: float = 0.0):
    """Mean of paired differences and its 95 % interval by Student's t.

        mean +- t s sqrt(1 / n + overlap),    t with n - 1 degrees of freedom

    Repeats on independent data have no overlap. Random splits of one data set
    share most of their rows, so their results are correlated and the usual
    interval is too narrow; Nadeau and Bengio (2003) add the number of test
    rows divided by the number of training rows.

    Args:
        first: results of a method, one for each repeat.
        second: those of the other method, in the same order.
        overlap: test rows divided by training rows of random splits; 0
            (default) if the repeats are independent.

    Returns:
        `(mean, low, high)`.
    """
    gaps = np.asarray(first, float) - np.asarray(second, float)
    if gaps.ndim != 1 or len(gaps) < 2:
        raise ValueError(
            "An interval needs at least two repeats. "
            f"Received: {gaps.shape} differences"
        )
    spread = gaps.std(ddof=1) * np.sqrt(1 / len(gaps) + overlap)
    half = stats.t.ppf((1 + LEVEL) / 2, len(gaps) - 1) * spread
    mean = gaps.mean()
    return float(mean), float(mean - half), float(mean + half)


def is_below(first, second, *, overlap: float = 0.0) -> bool:
    """Whether the whole interval of `first - second` is below zero."""
    return difference(first, second, overlap=overlap)[2] < 0


def mean_ranks(scores):
    """Mean ranks over data sets, and whether they differ (Demsar, 2006).

    Args:
        scores: `(methods, sets)`, higher is better. Equal scores share their
            mean rank.

    Returns:
        Mean ranks `(methods,)`, 1 for the best; the p-value of Friedman's test
        that all methods are equal; and Nemenyi's critical difference at 5 %:
        two methods differ if their mean ranks differ by more.
    """
    scores = np.asarray(scores, float)
    methods, sets = scores.shape
    ranks = stats.rankdata(-scores, axis=0).mean(axis=1)
    p = stats.friedmanchisquare(*scores).pvalue if methods > 2 else np.nan
    q = stats.studentized_range.ppf(LEVEL, methods, np.inf) / np.sqrt(2)
    least = q * np.sqrt(methods * (methods + 1) / (6 * sets))
    return ranks, float(p), float(least)
