"""Scores of the rows of a table that may be larger than the memory."""

import dataclasses
from typing import Any

import numpy as np

FIT_ROWS = 2**18
"""Largest number of rows that a detector is fitted to.

Its training uses 256,000 rows in total.
"""


@dataclasses.dataclass
class ScoredTable:
    """The scores of all rows.

    Args:
        detector: a detector fitted to the rows, or to a sample of them.
        scores: the scores of all rows, `(n,)`.
        labels: 1 for rows above the detector's threshold, `(n,)`.
        strangest: as `strangest` returns them.
        fitted_rows: how many rows the detector was fitted to.
    """

    detector: Any
    scores: np.ndarray
    labels: np.ndarray
    strangest: list[dict]
    fitted_rows: int


def score_table(table, fit, top: int, seed: int, console) -> ScoredTable:
    """Fits a detector to a table and scores all of its rows.

    A table of more than `FIT_ROWS` rows is read twice: a sample for the fit,
    then part by part for the scores. The threshold is that of all scores.

    Args:
        table: a `TableFile`.
        fit: function of rows that returns the fitted detector.
        top: how many of the strangest rows to describe.
        seed: the random seed of the sample.
        console: shows the progress.
    """
    x, count = table.sample(FIT_ROWS, np.random.default_rng(seed))
    detector = fit(x)
    if count == len(x):
        found = strangest(detector, x, table.names, top)
        return ScoredTable(
            detector, detector.decision_scores_, detector.labels_, found, count
        )
    scores = np.empty(count)
    numbers, rows, done = np.zeros(0, int), x[:0], 0
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
    found = _describe(detector, rows, numbers, scores[numbers], table.names)
    labels = _flags(scores, threshold)
    return ScoredTable(detector, scores, labels, found, len(x))


def _flags(scores, threshold):
    return (scores > threshold).astype("int64")


def strangest(detector, x, columns, count: int) -> list[dict]:
    """The strangest rows, each with the columns that make it strange.

    Args:
        detector: a detector fitted to `x`.
        x: the table.
        columns: names of its columns.
        count: how many rows.

    Returns:
        A dict for each row: `row`, `score`, `flagged`, and `columns`, up to
        three dicts of `name`, `value` and `deviations` (robust deviations
        from the median). These are the columns more than three deviations
        away. If there are none, it is the one farthest away, and the row is
        strange as a combination.
    """
    scores = detector.decision_scores_
    numbers = np.argsort(-scores, kind="stable")[:count]
    return _describe(detector, x[numbers], numbers, scores[numbers], columns)


def _describe(detector, rows, numbers, scores, columns):
    spread = np.where(detector.kept_, detector.spread_, np.inf)
    return [
        {
            "row": int(number),
            "score": float(score),
            "flagged": bool(score > detector.threshold_),
            "columns": _unusual_columns(row, detector.middle_, spread, columns),
        }
        for row, number, score in zip(rows, numbers, scores, strict=True)
    ]


def _unusual_columns(row, middle, spread, columns):
    with np.errstate(over="ignore"):
        # The division comes first, because the distance of two values may
        # overflow.
        away = row / spread - middle / spread
    order = np.argsort(-np.abs(away), kind="stable")[:3]
    far = [at for at in order if abs(away[at]) > 3] or order[:1]
    return [
        {
            "name": columns[at],
            "value": float(row[at]),
            "deviations": float(away[at]),
        }
        for at in far
    ]
