"""Tables of any size: read part by part, and scored row by row."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from keras_likelihood.backend.csv_tables import CsvTable
from keras_likelihood.backend.parquet_files import open_parquet
from keras_likelihood.commands.files import (
    NUMBERS,
    CommandError,
    UsageError,
    read_arrays,
    refuse_nan,
    regular_file,
)

CHUNK_ROWS = 2**16


class TableFile:
    """A table that can be read more than once.

    Args:
        path: a .csv, a .parquet, or an .npz with an array `X` or `x`.

    Attributes:
        names: names of the columns.
        notes: what was encoded, filled or left out, in sentences.
    """

    def __init__(self, path):
        readers = {
            ".csv": _csv_chunks,
            ".tsv": _csv_chunks,
            ".txt": _csv_chunks,
            ".parquet": _parquet_chunks,
            ".npz": _array_chunks,
        }
        path = regular_file(path)
        if path.suffix.lower() not in readers:
            raise UsageError(
                f"Data must be .npz, .csv or .parquet. Received: {path}"
            )
        self.path = path
        found = readers[path.suffix.lower()](path)
        self.names, self._read, self.notes = found

    def chunks(self) -> Iterator[np.ndarray]:
        """Parts of the table in their order, `(rows, columns)`, finite."""
        begin = 0
        for part in self._read():
            refuse_nan(self.path, "the table", part, begin)
            begin += len(part)
            yield part

    def sample(self, most: int, random) -> tuple[np.ndarray, int]:
        """At most `most` rows in their order, and how many the table has.

        Each row has the same chance: those with the smallest random numbers
        stay. `random` is a NumPy generator.
        """
        kept, keys, count, bound = [], [], 0, np.inf
        for part in self.chunks():
            key = random.random(len(part))
            near = key < bound
            kept.append(part[near])
            keys.append(key[near])
            count += len(part)
            if sum(map(len, keys)) > 2 * most:
                kept, keys = _smallest(kept, keys, most)
                bound = keys[0].max()
        kept, _ = _smallest(kept, keys, most)
        return kept[0], count


def _smallest(kept, keys, most):
    kept, keys = np.concatenate(kept), np.concatenate(keys)
    if len(keys) > most:
        near = np.sort(np.argpartition(keys, most - 1)[:most])
        kept, keys = kept[near], keys[near]
    return [kept], [keys]


def _csv_chunks(path):
    table = CsvTable(path)
    return table.filled_names, table.chunks, table.notes


def _array_chunks(path):
    found = read_arrays(path, (), ("X", "x"))
    if not found:
        raise CommandError(f"{path}: the file needs an array `X` or `x`")
    x = next(iter(found.values()))
    if x.ndim != 2 or x.dtype.kind not in NUMBERS:
        raise CommandError(
            f"{path}: the data must be a table of numbers. "
            f"Received: shape {x.shape} of {x.dtype}"
        )

    def read():
        return (x[i : i + CHUNK_ROWS] for i in range(0, len(x), CHUNK_ROWS))

    return [f"column {i}" for i in range(x.shape[-1])], read, []


def _parquet_chunks(path):
    file = open_parquet(path)
    for field in file.schema_arrow:
        if np.dtype(field.type.to_pandas_dtype()).kind not in "iuf":
            raise CommandError(
                f"{path}: every column must hold numbers. Received: the "
                f"column `{field.name}` of {field.type}"
            )
    names = list(file.schema_arrow.names)
    return names, lambda: map(_float_rows, file.iter_batches(CHUNK_ROWS)), []


def _float_rows(batch):
    # A missing value becomes NaN, which raises an error with its row.
    columns = [c.to_numpy(zero_copy_only=False) for c in batch.columns]
    return np.stack(columns, axis=1).astype("float64")


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
