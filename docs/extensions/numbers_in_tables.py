"""Numbers in tables: aligned to the right, on one line with error and unit."""

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

NO_BREAK = "\N{NO-BREAK SPACE}"
MOST_COLUMNS = 6
"""A wider table would not fit a page without breaks."""
_NUMBER = re.compile(
    r"[-+\N{MINUS SIGN}<>]? ?[\d.,]+([eE][-+]?\d+)?"
    r"( ?± ?[\d.,]+)?( ?(%|s|ms|GB|MB))?"
)
_NOTHING = ("", "-", "–", "—")


def is_number(text: str) -> bool:
    """Whether a cell holds a number, perhaps with its error and unit.

    >>> [is_number(text) for text in ("1.58 ± 0.02", "40 %", "L2 0.1")]
    [True, True, False]
    """
    return _NUMBER.fullmatch(text.replace(NO_BREAK, " ")) is not None


def unbroken(text: str) -> str:
    """`text` without breaks around a plus-minus sign or before a percent.

    >>> unbroken("1.5 ± 0.1 and 40 %") == "1.5\\xa0±\\xa00.1 and 40\\xa0%"
    True
    """
    text = re.sub(r" ± (?=[\d.])", f"{NO_BREAK}±{NO_BREAK}", text)
    return re.sub(r"(?<=\d) %", f"{NO_BREAK}%", text)


class NumbersInTables(SphinxPostTransform):
    """Aligns columns of numbers, and joins numbers if there is room."""

    default_priority = 900

    def run(self, **kwargs):
        for table in self.document.findall(nodes.tgroup):
            _align(table)
            if table["cols"] > MOST_COLUMNS:
                continue
            for text in list(table.findall(nodes.Text)):
                joined = unbroken(text.astext())
                if joined != text.astext():
                    text.parent.replace(text, nodes.Text(joined))


def _align(table):
    """Aligns the columns that hold nothing but numbers to the right."""
    rows = [list(row.findall(nodes.entry)) for row in table.findall(nodes.row)]
    body = list(table.findall(nodes.tbody))
    inside = [list(r.findall(nodes.entry)) for r in body[0].findall(nodes.row)]
    for at in range(table["cols"]):
        cells = [row[at].astext().strip() for row in inside if at < len(row)]
        numbers = [cell for cell in cells if cell not in _NOTHING]
        if numbers and all(map(is_number, numbers)):
            for row in rows:
                if at < len(row) and not row[at]["classes"]:
                    row[at]["classes"].append("text-right")


def setup(app):
    app.add_post_transform(NumbersInTables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
