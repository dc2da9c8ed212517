"""The scores of several models, as a table."""

from typing import NamedTuple

_LOWER_IS_BETTER = ("nll", "crps", "rmse", "brier", "ece")
_HIGHER_IS_BETTER = ("accuracy",)


class ComparisonRow(NamedTuple):
    """The scores of one model.

    Attributes:
        name: the name of the model.
        scores: dict of means by name of the score. NaN means that the model
            does not have this score.
        errors: dict of their standard errors.
        behind: its NLL minus the NLL of the best model.
        behind_error: standard error of that difference. What is common to both
            models cancels in it.
    """

    name: str
    scores: dict
    errors: dict
    behind: float
    behind_error: float


class Comparison(list):
    """A list of `ComparisonRow`s, the lowest NLL first, that prints a table.

    The best value of a column has a star. A value is followed by its standard
    error.
    """

    def row(self, name: str) -> ComparisonRow:
        """The row of the model of this name."""
        for row in self:
            if row.name == name:
                return row
        raise ValueError(
            f"The models are {[row.name for row in self]}. Received: {name!r}"
        )

    def __str__(self):
        names = list(self[0].scores)
        header = ["model", *names, "nll - best"]
        best = {name: self._best(name) for name in names}
        rows = [header] + [
            [
                row.name,
                *(
                    _cell(row.scores[n], row.errors[n], row.name == best[n])
                    for n in names
                ),
                _cell(row.behind, row.behind_error, False),
            ]
            for row in self
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.rjust(width) if position else cell.ljust(width)
                for position, (cell, width) in enumerate(
                    zip(cells, widths, strict=True)
                )
            ).rstrip()
            for cells in rows
        )

    __repr__ = __str__

    def _best(self, score):
        known = [r for r in self if r.scores[score] == r.scores[score]]
        if score not in _LOWER_IS_BETTER + _HIGHER_IS_BETTER or not known:
            return None
        sign = -1 if score in _HIGHER_IS_BETTER else 1
        return min(known, key=lambda r: sign * r.scores[score]).name


def _cell(value, error, is_best):
    if value != value:
        return "-"
    return f"{value:.4g} ({error:.2g}){'*' if is_best else ' '}"
