"""The claims of the paper, and whether our results bear them out.

A claim is a function of the facts of a study (`facts.py`) that returns a
verdict, our number, the paper's and one line of reasons. The page shows
what the functions return, so that no verdict outlives its results.
"""

import json
import pathlib

import claims_of_models  # noqa: F401
import claims_of_uses  # noqa: F401
from facts import facts
from verdicts import CLAIMS, NOT, PARTLY, REPRODUCED

MARKS = {REPRODUCED: "yes", PARTLY: "partly", NOT: "no"}
NOT_RUN = "not run"


def judged(folder: pathlib.Path, reported: dict, studies) -> list[tuple]:
    """Every claim with its verdict, ours, the paper's and why.

    Args:
        folder: with the results.
        reported: what the paper reports, by table.
        studies: names of the studies, in the order of the page.

    Returns:
        Pairs of a `Claim` and `(verdict, ours, paper, why)`. A study without
        results, or with those of a smoke test (`--quick`), is `NOT_RUN`.
    """
    found = []
    for one in sorted(CLAIMS, key=lambda one: studies.index(one.study)):
        path = folder / f"{one.study}.json"
        study = json.loads(path.read_text()) if path.exists() else None
        if study is None or "--quick" in study["command"]:
            found.append((one, (NOT_RUN, "–", "–", "")))
            continue
        data = study["data"]
        values = facts(one.study, data, reported)
        found.append((one, one.judge(data, values)))
    return found


def tally(found: list[tuple]) -> str:
    """How many claims have which verdict, as a sentence."""
    verdicts = [verdict for _, (verdict, *_) in found]
    return (
        f"Of {len(found)} claims, {verdicts.count(REPRODUCED)} are "
        f"reproduced, {verdicts.count(PARTLY)} are reproduced in part and "
        f"{verdicts.count(NOT)} are not reproduced."
    )


def scorecard(found: list[tuple], anchors: dict) -> str:
    """All claims as a table with links to their sections.

    Args:
        found: what `judged` returns.
        anchors: of the sections, by study.
    """
    lines = [
        "| claim of the paper | verdict | ours | paper | why |",
        "| --- | --- | --- | --- | --- |",
    ]
    for one, (verdict, ours, paper, why) in found:
        text = f"[{one.text.rstrip('.')}](#{anchors[one.study]})"
        cells = (text, badge(verdict), ours, paper, why)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def badge(verdict: str) -> str:
    """A verdict in its colour."""
    mark = MARKS.get(verdict, "none")
    return f'<span class="verdict {mark}">{verdict}</span>'
