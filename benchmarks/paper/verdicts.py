"""What a claim of the paper is, and the three verdicts on it."""

import typing

REPRODUCED, PARTLY, NOT = "reproduced", "in part", "not reproduced"
FIGURE = "a figure"


class Claim(typing.NamedTuple):
    """A claim of the paper.

    Attributes:
        study: the name of the study that tests it.
        where: its place in the paper.
        text: the claim, in our words.
        judge: a function of `(data, found)`, the study's results and facts,
            that returns `(verdict, ours, paper, why)`.
    """

    study: str
    where: str
    text: str
    judge: typing.Callable


CLAIMS: list[Claim] = []


def claim(study: str, where: str, text: str):
    """Registers the function below it as the judge of a claim."""

    def keep(judge):
        CLAIMS.append(Claim(study, where, text, judge))
        return judge

    return keep


def verdict(fully: bool, partly: bool) -> str:
    """The verdict on a claim that holds fully, in part or not at all."""
    return REPRODUCED if fully else PARTLY if partly else NOT
