"""Reads and writes .csv files of various dialects."""

import codecs
import collections
import csv
import itertools
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

import numpy as np

from keras_likelihood.backend.files import Path, open_regular, replacing
from keras_likelihood.backend.types import Array
from keras_likelihood.tables.columns import as_numbers, has_value, is_missing

PART_ROWS, _PART_CELLS = 2**16, 2**23
"""Maximum numbers of rows and cells per part."""
INDEX = ("", "index", "Unnamed: 0")
"""Names of the column in which pandas saves the index."""
_FORMULA = tuple("=+-@\t\r")
_DECIMAL_COMMA = re.compile(r"\s*[-+]?[\d.]*,\d+\s*")


class CsvFile:
    """A .csv file in UTF-8 or Latin-1, with or without a header."""

    def __init__(self, path: Path):
        self._path = path
        self._encoding = self._find_encoding()
        self._separator = self._find_separator()
        head = list(itertools.islice(self.lines(), 100))
        self._has_names = bool(head) and _has_names(head)
        if len(head) <= self._has_names:
            raise ValueError(f"{path}: the file contains no rows")
        self.names = [f"column {i}" for i in range(len(head[0]))]
        if self._has_names:
            self.names = unique_names(
                [cell.strip("# ") for cell in head[0]], path
            )
        self.missing: collections.Counter[str] = collections.Counter()
        """Number of the texts that were read as missing values."""

    def pieces(self) -> Iterator[tuple[list[str], list[Array]]]:
        """Yields the names and the cells of each part: float64, or objects."""
        lines = self.lines()
        if self._has_names:
            next(lines)
        width, begin = len(self.names), 0
        size = max(64, min(PART_ROWS, _PART_CELLS // width))
        while rows := list(itertools.islice(lines, size)):
            for at, row in enumerate(rows, start=begin):
                if len(row) != width:
                    raise ValueError(
                        f"{self._path}: every row must have {width} cells. "
                        "Rows are counted from 0. "
                        f"Received in row {at}: {len(row)}"
                    )
            begin += len(rows)
            yield self.names, list(map(self._cells, zip(*rows, strict=True)))
        with open(self._path, "rb") as file:
            file.seek(-1, 2)
            is_whole = file.read(1) in b"\r\n"
        if not is_whole:
            warnings.warn(
                f"{self._path} does not end with a line break, so its last "
                "row may be cut off",
                stacklevel=2,
            )

    def _cells(self, texts: tuple[str, ...]) -> Array:
        cells = np.array(texts, object)
        try:
            return cells.astype("float64")
        except ValueError:
            if self._separator != ",":
                texts = tuple(map(_with_point, texts))
        numbers = as_numbers(texts)
        is_text = np.isnan(numbers)
        is_value = has_value(cells[is_text])
        missing = cells[is_text][~is_value]
        self.missing.update(text.strip() for text in missing)
        if not is_value.any():
            return numbers
        # Categories may be numbers.
        return np.where(is_text, cells, numbers)

    def write(
        self, path: Path, target: str, changes: dict[int, str], keep: Array
    ) -> None:
        """Writes the rows of `keep`; `changes` has cells of `target` by row."""
        lines = self.lines()
        place = self.names.index(target)
        coding = self._encoding.removesuffix("-sig")
        with open(path, "w", newline="", encoding=coding) as file:
            writer = csv.writer(file, delimiter=self._separator)
            if self._has_names:
                writer.writerow(next(lines))
            for at, (row, kept) in enumerate(zip(lines, keep, strict=True)):
                row[place] = changes.get(at, row[place])
                if kept:
                    writer.writerow(row)

    def _find_encoding(self) -> str:
        decoder = codecs.getincrementaldecoder("utf-8")()
        with open_regular(self._path) as file:
            for block in iter(lambda: file.read(2**24), b""):
                if re.search(rb"[\x00-\x08\x0e-\x1f]", block):
                    raise ValueError(
                        f"{self._path}: the file must be plain text. "
                        "Received: bytes that are not text"
                    )
                try:
                    decoder.decode(block)
                except UnicodeDecodeError:
                    return "latin-1"
        return "utf-8-sig"

    def _open(self) -> TextIO:
        return open(self._path, newline="", encoding=self._encoding)

    def _find_separator(self) -> str:
        with self._open() as file:
            first, second = file.readline(2**20), file.readline(2**20)
        for separator in ";\t|":
            if 0 < first.count(separator) == second.count(separator):
                return separator
        return ","

    def lines(self) -> Iterator[list[str]]:
        """The texts of each row that is not empty, and first of a header."""
        try:
            with self._open() as file:
                rows = csv.reader(file, delimiter=self._separator)
                yield from (row for row in rows if row)
        except csv.Error as error:
            raise ValueError(
                f"{self._path}: the file is not a .csv ({error})"
            ) from error


def unique_names(names: list[str], path: Path) -> list[str]:
    """Names in which a second `a` is `a.1`, as in pandas, with a warning."""
    taken, unique = set(names), dict[str, str]()
    for name in names:
        every = (f"{name}.{i}" for i in itertools.count(1))
        new = name
        if name in unique:
            new = next(other for other in every if other not in taken)
        taken.add(new)
        unique[new] = name
    renamed = [
        f"`{old}` to `{new}`" for new, old in unique.items() if old != new
    ]
    if renamed:
        warnings.warn(
            f"{path}: column names must be unique. Renamed: "
            f"{', '.join(renamed[:20])}",
            stacklevel=2,
        )
    return list(unique)


def write_csv(path: Path, columns: dict[str, Iterable[Any]]) -> None:
    """Writes a table, given as columns by name, atomically.

    Texts that a spreadsheet would run as a formula start with an apostrophe.
    """
    with replacing(path) as temporary:
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(map(_without_formula, columns))
            for row in zip(*columns.values(), strict=True):
                writer.writerow(map(_without_formula, row))


def _without_formula(cell: Any) -> Any:
    is_text = isinstance(cell, str) and not _is_number(cell)
    return f"'{cell}" if is_text and cell[:1] in _FORMULA else cell


def _has_names(head: list[list[str]]) -> bool:
    """Whether the first row is a header.

    A header starts with `#`, has no numbers, numbers the columns from 0 as
    pandas does, or has a text above a column of numbers. It may also mix texts
    that do not occur below with distinct whole numbers, such as years.
    """
    first, *rows = head
    numbers = [cell for cell in first if _is_number(cell)]
    if first[0].startswith("#") or not numbers:
        return True
    counted = first[1:] if first[0] in INDEX else first
    if len(counted) > 1 and counted == [str(i) for i in range(len(counted))]:
        return True
    texts = [
        (cell, [row[at] for row in rows if at < len(row)])
        for at, cell in enumerate(first)
        if not _is_number(cell) and not is_missing(cell)
    ]
    if not rows or not texts:
        return False
    if any(all(map(_is_number, below)) for _, below in texts):
        return True
    whole = all(cell.strip().isdigit() for cell in numbers)
    new = all(cell not in below for cell, below in texts)
    return new and whole and len(set(numbers)) == len(numbers)


def _with_point(cell: str) -> str:
    """Replaces a decimal comma by a point."""
    if _DECIMAL_COMMA.fullmatch(cell):
        return cell.replace(".", "").replace(",", ".")
    return cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
