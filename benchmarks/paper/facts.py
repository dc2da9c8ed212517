"""Numbers that the page tells and that follow from recorded results.

`facts(NAME, data, reported)` is what the words call `{{facts/...}}`, and what
the verdicts of `claims.py` rest on.
"""

import facts_of_models
import facts_of_uses

STUDIES = facts_of_models.STUDIES | facts_of_uses.STUDIES


def facts(name: str, data: dict, reported: dict) -> dict:
    """Numbers that follow from the results of a study.

    Args:
        name: of the study.
        data: what the study recorded.
        reported: what the paper reports, by table.
    """
    return STUDIES[name](data, reported) if name in STUDIES else {}
