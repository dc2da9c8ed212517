"""Scores of the rows of a table that may be larger than the memory."""

from typing import Any, NamedTuple

import numpy as np

FIT_ROWS = 2**18
"""Largest number of rows that a detector is fitted to.

Its training uses 256,000 rows in total.
"""


class ScoredTable(NamedTuple):
    """Scores `(n,)` of all rows, and the strangest rows.

    The detector was fitted to `fitted_rows` of them. A flag `(n,)` is 1 if the
    score is above the detector's threshold.
    """

    detector: Any
    scores: np.ndarray
    flags: np.ndarray
    strangest: list[dict]
    fitted_rows: int


def score_table(table, fit, top: int, seed: int, console) -> ScoredTable:
    """Fits a detector to a table and scores all of its rows.

    A `TableFile` of more than `FIT_ROWS` rows is read twice: a sample for the
    fit, then part by part for the scores. The threshold is that of all scores.
    `fit` is a function of rows that returns the fitted detector.
    """
    x, count = table.sample(FIT_ROWS, np.random.default_rng(seed))
    detector = fit(x)
    scores, rows, numbers = detector.decision_scores_, x, np.arange(count)
    if count > len(x):
        scores, rows, numbers = np.empty(count), x[:0], numbers[:0]
        done = 0
        with console.progress("scoring the rows") as on_rows:
            for part in table.chunks():
                end = done + len(part)
                scores[done:end] = detector.decision_function(part)
                numbers = np.concatenate([numbers, np.arange(done, end)])
                rows = np.concatenate([rows, part])
                order = np.argsort(-scores[numbers], kind="stable")[:top]
                numbers, rows, done = numbers[order], rows[order], end
                on_rows(done, count)
        threshold = float(np.quantile(scores, 1 - detector.contamination))
        detector.threshold_ = threshold
        detector.labels_ = _flags(detector.decision_scores_, threshold)
    some = rows, numbers, scores[numbers]
    found = strangest(detector, *some, table.names, top)
    flags = _flags(scores, detector.threshold_)
    return ScoredTable(detector, scores, flags, found, len(x))


def _flags(scores, threshold):
    return (scores > threshold).astype("int64")


def strangest(detector, rows, numbers, scores, columns, count) -> list[dict]:
    """The strangest rows, each with the columns that make it strange.

    `numbers` are the places of the rows in their table.

    Returns:
        A dict for each row: `row`, `score`, `flagged`, and `columns`, up to
        three dicts of `name`, `value` and `deviations` (robust deviations
        from the median). These are the columns more than three deviations
        away. If there are none, it is the one farthest away, and the row is
        strange as a combination.
    """
    spread = np.where(detector.kept_, detector.spread_, np.inf)
    found = []
    for at in np.argsort(-scores, kind="stable")[:count]:
        row, score = rows[at], float(scores[at])
        with np.errstate(over="ignore"):
            # The division comes first, because the distance of two values
            # may overflow.
            away = row / spread - detector.middle_ / spread
        order = np.argsort(-np.abs(away), kind="stable")[:3]
        unusual = [
            {
                "name": columns[i],
                "value": float(row[i]),
                "deviations": float(away[i]),
            }
            for i in [i for i in order if abs(away[i]) > 3] or order[:1]
        ]
        found.append(
            {
                "row": int(numbers[at]),
                "score": score,
                "flagged": score > detector.threshold_,
                "columns": unusual,
            }
        )
    return found
