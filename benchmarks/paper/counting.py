"""Columns of recorded tables, and what is counted in them."""

import math
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import paired  # noqa: E402

SPLITS = 0.25
"""Test rows over training rows where a set is split 80 : 20."""


def column(table: dict, name: str) -> dict:
    """A column of a table, by row."""
    place = table["columns"].index(name)
    return {row: values[place] for row, values in table["rows"].items()}


def count_below(table: dict, first: str, second: str) -> int:
    """In how many rows a column is below another."""
    pairs = zip(
        column(table, first).values(),
        column(table, second).values(),
        strict=True,
    )
    return sum(None not in pair and pair[0] < pair[1] for pair in pairs)


def place_of(values: dict, name: str) -> int:
    """The place of a name among values of which the least is best."""
    return 1 + sum(value < values[name] for value in values.values())


def difference(first, second, *, overlap=0.0):
    """`paired.difference`; a smoke test has one repeat and no interval."""
    if len(first) < 2:
        return first[0] - second[0], math.nan, math.nan
    return paired.difference(first, second, overlap=overlap)


def format_difference(first, second, digits: int) -> str:
    """A paired difference: its mean, and from where to where it may be."""
    mean, low, high = (
        f"{value:+.{digits}f}" for value in difference(first, second)
    )
    return f"{mean} ({low} to {high})"


def clearly_below(first, second, *, overlap=0.0) -> bool:
    """Whether the whole interval of the difference is below zero."""
    return difference(first, second, overlap=overlap)[2] < 0


def compare(first, second, *, overlap=0.0) -> tuple[bool, bool, bool]:
    """Whether the mean is lower, clearly lower and clearly higher."""
    return (
        statistics.mean(first) < statistics.mean(second),
        clearly_below(first, second, overlap=overlap),
        clearly_below(second, first, overlap=overlap),
    )


def count(pairs, *, overlap=0.0) -> dict:
    """How often the first of two is lower, clearly lower, clearly higher.

    Args:
        pairs: results of two methods over the same repeats, for each set.
        overlap: of the repeats, see `paired.difference`.
    """
    found = [compare(*pair, overlap=overlap) for pair in pairs]
    below, clear, above = zip(*found, strict=True)
    return {"below": sum(below), "clear": sum(clear), "above": sum(above)}


def rank_correlation(first, second):
    """Spearman's; equal values share their mean rank."""
    ranks = [
        [
            statistics.mean(i for i, v in enumerate(sorted(values)) if v == one)
            for one in values
        ]
        for values in (first, second)
    ]
    return statistics.correlation(*ranks)
