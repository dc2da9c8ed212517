"""Turns scores of any unit into tail probabilities, to average them."""

import numpy as np

_POINTS = 64


def fit_tails(scores) -> np.ndarray:
    """Quantiles of scores, `(n, k)`, at tails that fall by equal factors.

    Returns:
        `(k, _POINTS)`, increasing along the last axis; see `log_tails`.
    """
    quantiles = np.quantile(scores, -np.expm1(-_levels(len(scores))), axis=0)
    return np.ascontiguousarray(quantiles.T)


def log_tails(scores, quantiles, rows: int) -> np.ndarray:
    """`-log P(S >= score)` under a smooth fit of the scores seen.

    The logarithm is linear between quantiles, and beyond the largest one.

    Args:
        scores: `(n, k)`.
        quantiles: those of `fit_tails`, `(k, points)`.
        rows: number of scores in the fit.

    Returns:
        `(n, k)`, `>= 0`.
    """
    levels = _levels(rows)
    columns = zip(scores.T, quantiles, strict=True)
    return np.stack([_log_tail(s, q, levels) for s, q in columns], axis=1)


def _levels(rows):
    return np.linspace(0, np.log(rows + 1), _POINTS)


def _log_tail(scores, quantiles, levels):
    # Equal values of many rows may differ by rounding. They become one point.
    tie = 1e-6 * max(np.ptp(quantiles), 1e-300)
    group = np.concatenate([[0], np.cumsum(np.diff(quantiles) > tie)])
    count = np.bincount(group)
    at = np.bincount(group, quantiles) / count
    level = np.bincount(group, levels) / count
    found = np.interp(scores, at, level)
    if len(at) > 1:
        # The slope of the upper tenth is used, because the last points come
        # from few rows.
        low = min(np.searchsorted(level, np.log(10)), len(at) - 2)
        slope = (level[-1] - level[low]) / (at[-1] - at[low])
        found += slope * np.maximum(scores - at[-1], 0)
    return found
