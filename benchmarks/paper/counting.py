"""Columns of recorded tables, and what is counted in them."""

import itertools
import random
import statistics


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


def paired_difference(first, second):
    """Mean of paired differences and its 95 % interval.

    The interval is that of the bootstrap. Of few pairs all draws are counted,
    of many pairs 4,000 are drawn.
    """
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    if len(gaps) <= 5:
        draws = itertools.product(gaps, repeat=len(gaps))
    else:
        chance = random.Random(0)
        draws = (chance.choices(gaps, k=len(gaps)) for _ in range(4000))
    means = sorted(sum(draw) / len(gaps) for draw in draws)
    cut = round(0.025 * (len(means) - 1))
    return sum(gaps) / len(gaps), means[cut], means[-1 - cut]


def told_difference(first, second, digits: int) -> str:
    """A paired difference as the page tells it: mean (low to high)."""
    mean, low, high = (
        f"{value:+.{digits}f}" for value in paired_difference(first, second)
    )
    return f"{mean} ({low} to {high})"


def clearly_below(first, second) -> bool:
    """Whether the interval of the paired difference is below zero."""
    return paired_difference(first, second)[2] < 0


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
