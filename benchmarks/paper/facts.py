"""Numbers that follow from recorded results.

`facts(NAME, data, reported, load)` is what the words call `{{facts/...}}`, and
what the verdicts of `claims.py` use.
"""

import facts_of_models
import facts_of_uses

STUDIES = facts_of_models.STUDIES | facts_of_uses.STUDIES


def facts(name: str, data: dict, reported: dict, load) -> dict:
    """Numbers that follow from the results of a study.

    Args:
        name: of the study.
        data: what the study recorded.
        reported: what the paper reports, by table.
        load: a function from the name of another study to its data, or to
            `None` if it has none.
    """
    return STUDIES[name](data, reported, load) if name in STUDIES else {}
