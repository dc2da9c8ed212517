"""Writes docs/paper.md from the results of the studies.

    python examples/paper/render.py
    python examples/paper/render.py --check

The words are those of `prose/NAME.md`, which hold no result: numbers come
from `docs/paper/NAME.json` (ours) and `reported.json` (the paper's). In the
words, `{{a.b:.3f}}` is the number `b` of `a` in the data, `[[table NAME]]` a
table and `[[figure NAME]]` a picture. Tables and pictures that the words do
not place follow them.
"""

import argparse
import json
import pathlib
import re
import sys

from results import FOLDER, HERE

STUDIES = (
    "nll_curves",
    "robust_classification",
    "robust_regression",
    "robust_pca",
    "vae",
    "regressors",
    "temperatures",
    "temperatures_cifar10",
    "outliers_table",
    "adaptive_regularization",
    "recalibration_tables",
    "layer_width",
    "softplus_offset",
    "space_time",
)
PAGE = FOLDER.parent / "paper.md"


def render(folder: pathlib.Path = FOLDER) -> str:
    """The page, as Markdown."""
    reported = json.loads((HERE / "reported.json").read_text())
    parts = [(HERE / "prose" / "page.md").read_text()]
    for name in STUDIES:
        words = _words(name)
        path = folder / f"{name}.json"
        if path.exists():
            study = json.loads(path.read_text())
            parts.append(_section(words, study, reported))
        else:
            title = words.splitlines()[0]
            parts.append(
                f"{title}\n\nNot run yet: `python examples/paper/{name}.py`.\n"
            )
    return "\n".join(part.strip() + "\n" for part in parts)


def _words(name):
    path = HERE / "prose" / f"{name}.md"
    if path.exists():
        return path.read_text()
    return f"## {name.replace('_', ' ').capitalize()}\n"


def _section(words, study, reported):
    tables = dict(study["data"].get("tables", {}))
    pictures = dict(study["figures"])

    def place(match):
        kind, key = match.groups()
        if kind == "table":
            return _table(tables.pop(key), reported)
        return f"![{key}](paper/{pictures.pop(key)})"

    def number(match):
        value = study["data"]
        for key in match["path"].split("/"):
            if key not in value:
                raise KeyError(
                    f"The words ask for {match[0]}, which the result of "
                    f"`{study['command']}` does not have."
                )
            value = value[key]
        return format(value, match["format"] or "")

    words = re.sub(r"\[\[(table|figure) ([\w-]+)\]\]", place, words)
    words = re.sub(
        r"\{\{(?P<path>[^:}]+)(?::(?P<format>[^}]*))?\}\}", number, words
    )
    left = [_table(table, reported) for table in tables.values()]
    left += [f"![{k}](paper/{file})" for k, file in pictures.items()]
    run = (
        f"`{study['command']}`: {study['seconds'] / 60:.1f} minutes on "
        f"{study['cores']} cores, {study['backend']}."
    )
    return "\n\n".join([words.strip(), *left, run]) + "\n"


def _table(table, reported):
    digits = table.get("digits", 3)
    paper = reported.get(table.get("paper"), {"columns": [], "rows": {}})
    wanted = table.get("paper_columns", paper["columns"])
    places = [paper["columns"].index(column) for column in wanted]
    header = ["", *table["columns"], *(f"*paper* {c}" for c in wanted)]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for name in [*table["rows"], *_missing(table, paper)]:
        ours = table["rows"].get(name, [None] * len(table["columns"]))
        theirs = paper["rows"].get(name, [None] * len(paper["columns"]))
        theirs = [theirs[place] for place in places]
        cells = [_cell(value, digits) for value in ours]
        cells += [_cell(value, digits) for value in theirs]
        lines.append([name, *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _missing(table, paper):
    """Rows that the paper has and we do not, unless a table leaves them."""
    if table.get("only_ours"):
        return []
    return [name for name in paper["rows"] if name not in table["rows"]]


def _cell(value, digits):
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 10_000:
        return f"{value:.0f}"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if the page is not up to date",
    )
    options = parser.parse_args()
    page = render()
    if options.check:
        sys.exit(0 if PAGE.read_text() == page else f"{PAGE} is out of date")
    PAGE.write_text(page)
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
