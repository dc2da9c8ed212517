"""Tables of numbers from .csv files."""

import csv
import warnings

import numpy as np

from keras_likelihood.commands.archives import regular_file
from keras_likelihood.commands.command_error import CommandError
from keras_likelihood.commands.data_files import refuse_nan


def read_table(path):
    """Reads float64 `(rows, columns)` and the names of the columns.

    The first line may hold names. It is a line of names if none of its cells
    is a number, or if it begins with `#`.
    """
    path = regular_file(path)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise CommandError(
            f"{path}: the file is not a .csv ({error})"
        ) from error
    names, rows = _split_names(rows)
    if not rows:
        raise CommandError(f"{path}: the file holds no rows")
    table = np.array(
        [_numbers(path, at, row, len(names)) for at, row in enumerate(rows)]
    )
    refuse_nan(path, "the table", table)
    if not _ends_with_newline(path):
        warnings.warn(
            f"{path} does not end with a line break, so its last row may be "
            "cut off",
            stacklevel=2,
        )
    return table, names


def _split_names(rows):
    if rows and rows[0][0].startswith("#"):
        first = [rows[0][0].lstrip("# "), *rows[0][1:]]
        return first, rows[1:]
    if rows and not any(map(_is_number, rows[0])):
        return rows[0], rows[1:]
    return [f"column {i}" for i in range(len(rows[0]) if rows else 0)], rows


def _numbers(path, at, row, count):
    if len(row) == count:
        try:
            return [float(cell) for cell in row]
        except ValueError:
            pass
    wrong = [cell[:40] for cell in row if not _is_number(cell)]
    raise CommandError(
        f"{path}: every row must hold {count} numbers. Received in row {at}: "
        f"{repr(wrong[0]) if wrong else len(row)}"
    )


def _is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _ends_with_newline(path):
    with open(path, "rb") as file:
        file.seek(-1, 2)
        return file.read(1) in b"\r\n"
