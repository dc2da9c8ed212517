"""A number in a table stays on one line with its error or its unit."""

import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

NO_BREAK = "\N{NO-BREAK SPACE}"
MOST_COLUMNS = 6
"""A wider table would not fit a page without breaks."""


def unbroken(text: str) -> str:
    """`text` without breaks around a plus-minus sign or before a percent.

    >>> unbroken("1.5 ± 0.1 and 40 %") == "1.5\\xa0±\\xa00.1 and 40\\xa0%"
    True
    """
    text = re.sub(r" ± (?=[\d.])", f"{NO_BREAK}±{NO_BREAK}", text)
    return re.sub(r"(?<=\d) %", f"{NO_BREAK}%", text)


class UnbrokenNumbers(SphinxPostTransform):
    """Goes through the cells of all tables that are not too wide."""

    default_priority = 900

    def run(self, **kwargs):
        for table in self.document.findall(nodes.tgroup):
            if table["cols"] > MOST_COLUMNS:
                continue
            for text in list(table.findall(nodes.Text)):
                joined = unbroken(text.astext())
                if joined != text.astext():
                    text.parent.replace(text, nodes.Text(joined))


def setup(app):
    app.add_post_transform(UnbrokenNumbers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
