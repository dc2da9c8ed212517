"""Tables of the documentation that are made from results, between marks."""

import json
import pathlib

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
RESULTS = DOCS / "results"


def stored(name: str):
    """The stored results of one study."""
    return json.loads((RESULTS / f"{name}.json").read_text())


def fill(page: str, tables: dict):
    """Puts tables in their places on a page of the documentation.

    Args:
        page: name of the page, such as `"studies/outliers"`.
        tables: Markdown by name. A table stands between `<!-- NAME -->` and
            `<!-- end of NAME -->`.
    """
    path = DOCS / f"{page}.md"
    text = path.read_text()
    for name, table in tables.items():
        before, _, after = _parts(text, name)
        text = f"{before}\n{table.strip()}\n{after}"
    path.write_text(text)


def shown(page: str, name: str) -> str:
    """The table that the page shows."""
    return _parts((DOCS / f"{page}.md").read_text(), name)[1].strip()


def _parts(text, name):
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    first, last = text.index(begin) + len(begin), text.index(end)
    return text[:first], text[first:last], text[last:]
