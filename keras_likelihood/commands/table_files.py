"""Tables of numbers from files of any size, part by part."""

from collections.abc import Iterator

import numpy as np

from keras_likelihood.backend.csv_tables import CsvTable
from keras_likelihood.backend.parquet_files import open_parquet
from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.command_error import CommandError, UsageError
from keras_likelihood.commands.data_files import (
    NUMBERS,
    read_arrays,
    refuse_nan,
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
