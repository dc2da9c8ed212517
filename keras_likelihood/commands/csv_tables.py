"""Tables of numbers from .csv files."""

import csv
import itertools
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
    names, chunks = read_chunks(path)
    table = np.concatenate(list(chunks))
    refuse_nan(path, "the table", table)
    return table, names


def read_chunks(path, rows: int = 2**16):
    """The names of the columns, and an iterator of parts of the table.

    Args:
        path: the path of the file.
        rows: the number of rows in a part. The last part may have fewer.
    """
    path = regular_file(path)
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise CommandError(f"{path}: the file holds no rows")
    names, first = _split_names(first)
    if first:
        lines = itertools.chain([first], lines)
    return names, _parsed(path, lines, len(names), rows)


def _lines(path):
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            yield from (row for row in csv.reader(file) if row)
    except (UnicodeDecodeError, csv.Error) as error:
        raise CommandError(
            f"{path}: the file is not a .csv ({error})"
        ) from error


def _parsed(path, lines, columns, count):
    begin = 0
    while part := list(itertools.islice(lines, count)):
        yield np.array(
            [
                _numbers(path, at, row, columns)
                for at, row in enumerate(part, start=begin)
            ]
        )
        begin += len(part)
    if not begin:
        raise CommandError(f"{path}: the file holds no rows")
    if not _ends_with_newline(path):
        warnings.warn(
            f"{path} does not end with a line break, so its last row may be "
            "cut off",
            stacklevel=2,
        )


def _split_names(row):
    """Names of the columns, and the first row if it has no names."""
    if row[0].startswith("#"):
        return [row[0].lstrip("# "), *row[1:]], None
    if not any(map(_is_number, row)):
        return row, None
    return [f"column {i}" for i in range(len(row))], row


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
