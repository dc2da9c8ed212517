"""Tables of any size: read part by part, and scored row by row."""

from collections.abc import Callable, Iterator

import numpy as np

from keras_likelihood.backend.csv_tables import CsvTable
from keras_likelihood.backend.parquet_files import open_parquet
from keras_likelihood.commands import files

CHUNK_ROWS = 2**16
FIT_ROWS = 2**18
"""Largest number of rows that a detector is fitted to.

Its training uses 256,000 rows in total.
"""


class TableFile:
    """A table that can be read more than once.

    The file is a .csv, a .parquet, or an .npz with an array `X` or `x`. The
    attribute `notes` says in sentences what was encoded, filled or left out.
    """

    def __init__(self, path):
        self.path = files.regular_file(path)
        self.notes: list[str] = []
        self._read: Callable[[], Iterator[np.ndarray]]
        kind = self.path.suffix.lower()
        if files.is_text_table(path):
            table = CsvTable(self.path)
            self.names, self.notes = table.filled_names, table.notes
            self._read = table.chunks
        elif kind == ".parquet":
            self._open_parquet()
        elif kind == ".npz":
            self._open_arrays()
        else:
            raise files.UsageError(
                f"Data must be .npz, .csv or .parquet. Received: {path}"
            )

    def _open_parquet(self):
        file = open_parquet(self.path)
        for field in file.schema_arrow:
            if np.dtype(field.type.to_pandas_dtype()).kind not in "iuf":
                raise files.CommandError(
                    f"{self.path}: every column must hold numbers. Received: "
                    f"the column `{field.name}` of {field.type}"
                )
        self.names = list(file.schema_arrow.names)
        self._read = lambda: map(_float_rows, file.iter_batches(CHUNK_ROWS))

    def _open_arrays(self):
        found = files.read_arrays(self.path, (), ("X", "x"))
        if not found:
            raise files.CommandError(
                f"{self.path}: the file needs an array `X` or `x`"
            )
        x = next(iter(found.values()))
        if x.ndim != 2 or x.dtype.kind not in files.NUMBERS:
            raise files.CommandError(
                f"{self.path}: the data must be a table of numbers. "
                f"Received: shape {x.shape} of {x.dtype}"
            )
        self.names = [f"column {i}" for i in range(x.shape[1])]
        self._read = lambda: (
            x[i : i + CHUNK_ROWS] for i in range(0, len(x), CHUNK_ROWS)
        )

    def chunks(self) -> Iterator[np.ndarray]:
        """Parts of the table in their order, `(rows, columns)`, finite."""
        begin = 0
        for part in self._read():
            files.refuse_nan(self.path, "the table", part, begin)
            begin += len(part)
            yield part

    def sample(self, most: int, random) -> tuple[np.ndarray, int]:
        """At most `most` rows in their order, and how many the table has.

        Each row has the same chance: those with the smallest random numbers
        stay. `random` is a NumPy generator.
        """
        rows, keys, count = [], [], 0
        for part in self.chunks():
            rows.append(part)
            keys.append(random.random(len(part)))
            count += len(part)
            if sum(map(len, keys)) > 2 * most:
                rows, keys = _smallest(rows, keys, most)
        return _smallest(rows, keys, most)[0][0], count


def _smallest(rows, keys, most):
    rows, keys = np.concatenate(rows), np.concatenate(keys)
    if len(keys) > most:
        near = np.sort(np.argpartition(keys, most - 1)[:most])
        rows, keys = rows[near], keys[near]
    return [rows], [keys]


def _float_rows(batch):
    # A missing value becomes NaN, which raises an error with its row.
    columns = [c.to_numpy(zero_copy_only=False) for c in batch.columns]
    return np.stack(columns, axis=1).astype("float64")


def score_parts(detector, table, count: int, top: int, on_rows) -> tuple:
    """Scores a table of `count` rows part by part.

    Returns all scores `(count,)`, the `top` rows of the highest ones, and their
    places. The threshold of the detector becomes that of all scores.
    """
    scores, done = np.empty(count), 0
    rows, places = np.empty((0, len(table.names))), np.arange(0)
    for part in table.chunks():
        end = done + len(part)
        scores[done:end] = detector.decision_function(part)
        places = np.concatenate([places, np.arange(done, end)])
        rows = np.concatenate([rows, part])
        order = np.argsort(-scores[places], kind="stable")[:top]
        places, rows, done = places[order], rows[order], end
        on_rows(done, count)
    detector.threshold_ = float(np.quantile(scores, 1 - detector.contamination))
    flags = detector.decision_scores_ > detector.threshold_
    detector.labels_ = flags.astype("int64")
    return scores, rows, places


def strangest(detector, rows, places, scores, columns, count) -> list[dict]:
    """The strangest rows, each with the columns that make it strange.

    `places` are those of the rows in their table. Each dict has up to
    three `columns` that are more than three robust `deviations` from the
    median. If there are none, it is the one farthest away, and the row is
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
        far = [i for i in order if abs(away[i]) > 3] or order[:1]
        values = [(columns[i], float(row[i]), float(away[i])) for i in far]
        keys = ("name", "value", "deviations")
        found.append(
            {
                "row": int(places[at]),
                "score": score,
                "flagged": score > detector.threshold_,
                "columns": [dict(zip(keys, v, strict=True)) for v in values],
            }
        )
    return found
