"""The claims of the paper, and whether our results confirm them.

A claim is a function of the facts of a study (`facts.py`) that returns a
verdict, the numbers of the paper's settings, ours and the paper's, and one line
of reasons. The page shows what the functions return, so that no verdict
outlives its results.
"""

import json
import pathlib

import claims_of_models  # noqa: F401
import claims_of_uses  # noqa: F401
from facts import facts
from verdicts import CLAIMS, NOT, OPEN, PARTLY, REPRODUCED, Finding

MARKS = {REPRODUCED: "yes", PARTLY: "partly", NOT: "no"}


def loader(folder: pathlib.Path):
    """A function from a study's name to its data.

    It returns `None` for a study without results, or with those of a smoke
    test (`--quick`).
    """

    def load(name):
        path = folder / f"{name}.json"
        study = json.loads(path.read_text()) if path.exists() else None
        if study is None or "--quick" in study["command"]:
            return None
        return study["data"]

    return load


def judged(folder: pathlib.Path, reported: dict, studies) -> list[tuple]:
    """Every claim with what was found about it.

    Args:
        folder: with the results.
        reported: what the paper reports, by table.
        studies: names of the studies, in the order of the page.

    Returns:
        Pairs of a `Claim` and a `Finding`, in the order of the page.
    """
    load, found = loader(folder), []
    for one in sorted(CLAIMS, key=lambda one: studies.index(one.study)):
        data = load(one.study)
        if data is None:
            found.append((one, Finding(OPEN, paper="–", why="Not run.")))
            continue
        values = facts(one.study, data, reported, load)
        found.append((one, one.judge(data, values)))
    return found


def tally(found: list[tuple]) -> str:
    """How many claims have which verdict, as a sentence."""
    verdicts = [finding.verdict for _, finding in found]
    return (
        f"Of {len(found)} claims, {verdicts.count(REPRODUCED)} are "
        f"reproduced, {verdicts.count(PARTLY)} are reproduced in part, "
        f"{verdicts.count(NOT)} are not reproduced and "
        f"{verdicts.count(OPEN)} {'is' if verdicts.count(OPEN) == 1 else 'are'}"
        " open."
    )


def scorecard(found: list[tuple], anchors: dict) -> str:
    """All claims as a table with links to their sections.

    Args:
        found: what `judged` returns.
        anchors: of the sections, by study.
    """
    lines = [
        "| claim of the paper | verdict | its settings | ours | paper | why |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one, (verdict, *cells) in found:
        link = f"[{one.text.rstrip('.')}](#{anchors[one.study]})"
        text = f"{one.where}: {link}"
        lines.append("| " + " | ".join((text, badge(verdict), *cells)) + " |")
    return "\n".join(lines)


def rules(studies) -> str:
    """The rules of all verdicts, as a table for the protocol."""
    lines = ["| claim | where | reproduced; in part |", "|---|---|---|"]
    for one in sorted(CLAIMS, key=lambda one: studies.index(one.study)):
        lines.append(f"| {one.text} | {one.where} | {one.rule} |")
    return "\n".join(lines)


def badge(verdict: str) -> str:
    """A verdict in its colour."""
    mark = MARKS.get(verdict, "none")
    return f'<span class="verdict {mark}">{verdict}</span>'
