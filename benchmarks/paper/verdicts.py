"""What a claim of the paper is, and the verdicts on it."""

import typing

REPRODUCED, PARTLY, NOT = "reproduced", "in part", "not reproduced"
OPEN = "open"
"""There is no result, or too few seeds for one."""
FIGURE, NOTHING = "a figure", "–"
LEAST_SEEDS = 5


class Finding(typing.NamedTuple):
    """What the results say about a claim.

    Attributes:
        verdict: one of the four above.
        literal: what the paper's own settings give.
        ours: what the method of this package gives.
        paper: what the paper reports.
        why: one line of reasons.
    """

    verdict: str
    literal: str = NOTHING
    ours: str = NOTHING
    paper: str = FIGURE
    why: str = ""


class Claim(typing.NamedTuple):
    """A claim of the paper.

    Attributes:
        study: the name of the study that tests it.
        where: its place in the paper.
        text: the claim, in our words.
        rule: when it is reproduced, and when in part, as `docs/protocol.md`
            says it.
        judge: a function of `(data, found)`, the study's results and facts,
            that returns a `Finding`.
    """

    study: str
    where: str
    text: str
    rule: str
    judge: typing.Callable


CLAIMS: list[Claim] = []


def claim(study: str, where: str, text: str, rule: str):
    """Registers the function below it as the judge of a claim."""

    def keep(judge):
        CLAIMS.append(Claim(study, where, text, rule, judge))
        return judge

    return keep


def verdict(fully: bool, partly: bool) -> str:
    """The verdict on a claim that holds fully, in part or not at all."""
    return REPRODUCED if fully else PARTLY if partly else NOT
