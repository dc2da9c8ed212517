"""Reads arrays from files for the commands."""

import pathlib

import numpy as np

from keras_likelihood.backend.csv_tables import CsvTable
from keras_likelihood.commands.archives import open_archive, regular_file
from keras_likelihood.commands.command_error import CommandError

NUMBERS = "biuf"
"""Kinds of dtype that are real numbers."""


def is_text_table(path) -> bool:
    """Whether a file is a .csv, by its name."""
    return pathlib.Path(path).suffix.lower() in (".csv", ".tsv", ".txt")


def read_examples(path, args, missing: bool = False) -> dict:
    """Reads inputs `x` and labels `y` of an .npz or a .csv.

    With a .csv the result has also the `table`, the `names` of the columns of
    `x`, and `labels`, the names of the classes if they are texts. `missing`
    says whether NaN in a table is a missing value.
    """
    if not is_text_table(path):
        missing_in = ("x",) if missing else ()
        return read_arrays(path, ("x", "y"), missing=missing_in)
    table = CsvTable(regular_file(path), args.target or "")
    x, cells = table.read()
    args.console.say(f"The labels are the column `{table.target}`.")
    for note in table.notes:
        args.console.say(f"{note}.")
    y = table.numbers(cells)
    found = {"x": x, "y": y, "names": table.names, "table": table}
    if np.isnan(y).mean() > 0.5:
        labels, y = np.unique(cells, return_inverse=True)
        found.update(y=y, labels=labels.tolist())
    if not missing:
        refuse_nan(path, "x", x)
    refuse_nan(path, table.target, y)
    return found


def read_arrays(path, required, optional=(), missing=()) -> dict:
    """Reads the named arrays of an .npz.

    Every array must hold finite numbers, or text if it is `x`, and have at
    least one row. NaN is a missing value in the tables of `missing`.
    """
    with open_archive(path, ".npz") as archive:
        entries = {e.filename.removesuffix(".npy"): e for e in archive.filelist}
        if not entries.keys() >= set(required):
            needed = " and ".join(f"`{name}`" for name in required)
            raise CommandError(
                f"{path}: the file needs arrays {needed}. "
                f"Received: {sorted(entries)}"
            )
        wanted = [n for n in (*required, *optional) if n in entries]
        arrays = {n: _read_entry(archive, entries[n], path) for n in wanted}
    return {
        name: _checked(path, name, values, name in missing)
        for name, values in arrays.items()
    }


def _read_entry(archive, entry, path):
    with archive.open(entry) as file:
        try:
            array = np.lib.format.read_array(file, allow_pickle=False)
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise CommandError(
                f"{path}: pickled arrays are refused, since loading them may "
                f"run any code. Save plain arrays. Received: {entry.filename}"
            ) from error
        if file.read(1):
            raise ValueError(f"{entry.filename} is longer than its array")
    return array


def _checked(path, name, values, may_miss):
    allowed = NUMBERS + "SU" if name == "x" else NUMBERS
    if values.ndim == 0 or values.size == 0 or values.dtype.kind not in allowed:
        raise CommandError(
            f"{path}: the array `{name}` must hold numbers, one row for "
            f"each example. Received: shape {values.shape} of {values.dtype}"
        )
    if values.dtype.kind == "f":
        may_miss = may_miss and values.ndim == 2
        if not may_miss or np.isinf(values).any():
            refuse_nan(path, name, values)
        if values.dtype.itemsize > 8:
            values = values.astype("float64")
    # Backends need numbers in the byte order of this machine.
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def refuse_nan(path, name, values, begin: int = 0):
    """Raises an error if an array has NaN or infinite values."""
    # Minimum and maximum are enough, and need no mask.
    if np.isfinite(values.min()) and np.isfinite(values.max()):
        return
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    raise CommandError(
        f"{path}: `{name}` must be finite. Received: NaN or infinite values "
        f"in {int(bad.sum())} row(s), the first at {begin + int(bad.argmax())}"
    )
