"""Tables of numbers from files of any size, part by part."""

from collections.abc import Iterator

import numpy as np

from keras_likelihood.backend.csv_tables import CsvTable
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
        self.notes: list[str] = []
        self.names, self._read = readers[path.suffix.lower()](path, self.notes)

    def chunks(self) -> Iterator[np.ndarray]:
        """Parts of the table in their order, `(rows, columns)`, finite."""
        begin = 0
        for part in self._read():
            refuse_nan(self.path, "the table", part, begin)
            begin += len(part)
            yield part

    def sample(self, most: int, random) -> tuple[np.ndarray, int]:
        """Some rows in their order, and how many the table has.

        These are all rows if there are at most `most`. Otherwise each row has
        the same chance: the rows with the smallest random numbers stay.

        Args:
            most: how many rows at most.
            random: a NumPy generator.
        """
        kept, keys, places, count = [], [], [], 0
        bound, held = np.inf, 0
        for part in self.chunks():
            key = random.random(len(part))
            near = np.flatnonzero(key < bound)
            kept.append(part[near])
            keys.append(key[near])
            places.append(count + near)
            count += len(part)
            held += len(near)
            if held > 2 * most:
                kept, keys, places = _smallest(kept, keys, places, most)
                bound, held = keys[0].max(), most
        kept, _, places = _smallest(kept, keys, places, most)
        order = np.argsort(places[0])
        return kept[0][order], count


def _smallest(kept, keys, places, most):
    kept, keys, places = map(np.concatenate, (kept, keys, places))
    if len(keys) > most:
        near = np.argpartition(keys, most - 1)[:most]
        kept, keys, places = kept[near], keys[near], places[near]
    return [kept], [keys], [places]


def _csv_chunks(path, notes):
    table = CsvTable(path)
    notes += table.notes
    return table.filled_names, table.chunks


def _array_chunks(path, notes):
    found = read_arrays(path, (), ("X", "x"))
    if not found:
        raise CommandError(f"{path}: the file needs an array `X` or `x`")
    x = found.get("X", found.get("x"))
    if x.ndim != 2 or x.dtype.kind not in NUMBERS:
        raise CommandError(
            f"{path}: the data must be a table of numbers. "
            f"Received: shape {x.shape} of {x.dtype}"
        )

    def read():
        return (x[i : i + CHUNK_ROWS] for i in range(0, len(x), CHUNK_ROWS))

    return [f"column {i}" for i in range(x.shape[-1])], read


def _parquet_chunks(path, notes):
    try:
        import pyarrow as arrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            "Reading a .parquet needs pyarrow: pip install "
            f"'keras-likelihood[parquet]'. Received: {path}"
        ) from error
    try:
        file = arrow.parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise CommandError(
            f"{path}: the file is not a .parquet ({error})"
        ) from error
    types = arrow.types
    for field in file.schema_arrow:
        if not (types.is_integer(field.type) or types.is_floating(field.type)):
            raise CommandError(
                f"{path}: every column must hold numbers. Received: the "
                f"column `{field.name}` of {field.type}"
            )
    if not file.metadata.num_rows:
        raise CommandError(f"{path}: the file holds no rows")
    names = list(file.schema_arrow.names)
    return names, lambda: map(_float_rows, file.iter_batches(CHUNK_ROWS))


def _float_rows(batch):
    # A missing value becomes NaN, which raises an error with its row.
    columns = [c.to_numpy(zero_copy_only=False) for c in batch.columns]
    return np.stack(columns, axis=1).astype("float64")
