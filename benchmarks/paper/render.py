"""Writes docs/paper.md from the results of the studies.

    python benchmarks/paper/render.py
    python benchmarks/paper/render.py --check

The words are those of `prose/NAME.md`, which hold no result: numbers come
from `docs/paper/NAME.json` (ours) and `reported.json` (the paper's). In the
words, `{{a/b:.3f}}` is the number `b` of `a` in the data, `{{facts/...}}`
follows from the data (`facts.py`), `{{paper/...}}` is a number of the paper,
`[[table NAME | ...]]` a table (`tables.py` has the options) and
`[[figure NAME | what it shows]]` a picture. Tables and pictures that the
words do not place follow them, tables folded. The verdicts are computed
(`claims.py`).
"""

import argparse
import json
import pathlib
import re
import sys

from claims import badge, judged, scorecard, tally
from facts import facts
from figures import draw_all, drawn, outdated
from results import FOLDER, HERE
from tables import place

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
    found = judged(folder, reported, STUDIES)
    anchors = {name: _anchor(_words(name)) for name in STUDIES}
    top = (HERE / "prose" / "page.md").read_text()
    top = top.replace("[[tally]]", tally(found))
    parts = [top.replace("[[scorecard]]", scorecard(found, anchors))]
    for name in STUDIES:
        title, _, words = _words(name).partition("\n")
        path = folder / f"{name}.json"
        if path.exists():
            study = json.loads(path.read_text())
            values = facts(name, study["data"], reported)
            study["data"] |= {"facts": values, "paper": reported["numbers"]}
            study["figures"] |= drawn(name)
            words = _verdicts(name, found) + _section(words, study, reported)
            words += _footer(name, study)
        else:
            words = f"Not run yet: `python benchmarks/paper/{name}.py`."
        parts.append(f"{title}\n\n{words.strip()}\n")
    return "\n".join(part.strip() + "\n" for part in parts)


def _words(name):
    path = HERE / "prose" / f"{name}.md"
    if path.exists():
        return path.read_text()
    return f"## {name.replace('_', ' ').capitalize()}\n"


def _anchor(words):
    """The address of a section, made of its title as GitHub makes it."""
    title = words.splitlines()[0].lstrip("# ").lower()
    return re.sub(r"[^\w -]", "", title).replace(" ", "-")


def _verdicts(name, found):
    """The claims of a section, each with its verdict."""
    lines = [
        f"- {one.where}: {one.text} {badge(verdict)}"
        for one, (verdict, *_) in found
        if one.study == name
    ]
    return "\n".join(lines) + "\n\n" if lines else ""


def _section(words, study, reported):
    """The words of a section with its numbers, tables and pictures."""
    unplaced = dict(study["data"].get("tables", {}))
    pictures = dict(study["figures"])

    def placed(match):
        kind, key, options = match.groups()
        if kind == "table":
            unplaced.pop(key, None)
            return place(study["data"]["tables"][key], reported, options)
        alt = " ".join(options.strip(" |").split()) or key
        return f"![{alt}](paper/{pictures.pop(key)})"

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

    words = re.sub(
        r"\[\[(table|figure) ([\w-]+)((?: *\|.*?)?)\]\]",
        placed,
        words,
        flags=re.DOTALL,
    )
    words = re.sub(
        r"\{\{(?P<path>[^:}]+)(?::(?P<format>[^}]*))?\}\}", number, words
    )
    left = [
        place(table, reported, f"fold: {key.replace('_', ' ')}")
        for key, table in unplaced.items()
    ]
    left += [f"![{k}](paper/{file})" for k, file in pictures.items()]
    return "\n\n".join([words.strip(), *left]) + "\n\n"


def _footer(name, study):
    return (
        f"`{study['command']}`: {study['seconds'] / 60:.1f} minutes on "
        f"{study['cores']} cores, {study['backend']}. "
        f"[All its numbers](paper/{name}.json) (JSON)."
    )


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
        stale = [] if PAGE.read_text() == page else [PAGE]
        stale += outdated()
        sys.exit(f"out of date: {stale}" if stale else 0)
    draw_all()
    PAGE.write_text(page)
    print(f"written to {PAGE}")


if __name__ == "__main__":
    main()
