"""Writes the pages of the paper from the results of the studies.

    python benchmarks/paper/render.py
    python benchmarks/paper/render.py --check

`docs/paper.md` has the scorecard and a figure or table for each claim,
`docs/studies/paper_details.md` the rest, and a table of `docs/protocol.md` the
rules of the verdicts.

The words are those of `prose/NAME.md`, which hold no result: numbers come
from `docs/paper/NAME.json` (ours) and `reported.json` (the paper's). What
follows the line `[[details]]` is for the second page. In the words:

- `{{a/b:.3f}}` is the number `b` of `a` in the data, `{{facts/...}}` follows
  from the data (`facts.py`), `{{paper/...}}` is a number of the paper and
  `{{other NAME/...}}` one of another study;
- `[[table NAME | ...]]` is a table (`tables.py` has the options; `NAME` may be
  `STUDY/TABLE`), and `[[figure NAME | what it shows]]` a picture.

Tables and pictures that the words do not place stand at the end of a section of
the second page, tables folded. The verdicts are computed (`claims.py`).
"""

import argparse
import json
import pathlib
import re
import sys

from claims import badge, judged, loader, rules, scorecard, tally
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
BESIDE = (
    "literal_vae",
    "literal_regressors",
    "literal_outliers",
    "sparse_weights",
    "literal_recalibration",
    "literal_classifiers",
    "normalised_features",
)
"""Studies that have no section of their own; others show their results."""
DOCS = FOLDER.parent
PAGE = DOCS / "paper.md"
DETAILS = DOCS / "studies" / "paper_details.md"
PROTOCOL = DOCS / "protocol.md"
RULES = "<!-- verdicts -->\n", "\n<!-- end of verdicts -->"


def render(folder: pathlib.Path = FOLDER) -> dict[pathlib.Path, str]:
    """The pages by path, as Markdown."""
    reported = json.loads((HERE / "reported.json").read_text())
    found = judged(folder, reported, STUDIES)
    anchors = {name: _anchor(_words(name)) for name in STUDIES}
    top, details = (HERE / "prose" / "page.md").read_text().split(SPLIT)
    top = top.replace("[[tally]]", tally(found))
    pages = [top.replace("[[scorecard]]", scorecard(found, anchors))], [details]
    for name in STUDIES:
        title, _, words = _words(name).partition("\n")
        path = folder / f"{name}.json"
        if not path.exists():
            text = f"Not run yet: `python benchmarks/paper/{name}.py`."
            pages[0].append(f"{title}\n\n{text}\n")
            continue
        study = json.loads(path.read_text())
        load = loader(folder)
        values = facts(name, study["data"], reported, load)
        study["data"] |= {"facts": values, "paper": reported["numbers"]}
        study["figures"] |= drawn(name)
        parts = _section(words, study, reported, load)
        pages[0].append(f"{title}\n\n{_verdicts(name, found)}{parts[0]}\n")
        footer = _footers(name, study, words, folder)
        pages[1].append(f"{title}\n\n{parts[1]}\n\n{footer}\n")
    short, long = ("\n".join(p.strip() + "\n" for p in page) for page in pages)
    return {PAGE: short, DETAILS: long, PROTOCOL: _protocol()}


def _protocol():
    """The protocol with the rules of the verdicts."""
    begin, end = RULES
    before, _, rest = PROTOCOL.read_text().partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + rules(STUDIES) + end + after


SPLIT = "[[details]]\n"


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
    """The verdicts of a section, in the order of the scorecard."""
    parts = [
        f"{one.where}: {badge(finding.verdict)}"
        for one, finding in found
        if one.study == name
    ]
    return " · ".join(parts) + "\n\n" if parts else ""


def _section(words, study, reported, load):
    """Both parts of a section with numbers, tables and pictures."""
    unplaced = dict(study["data"].get("tables", {}))
    pictures = dict(study["figures"])

    def placed(match):
        kind, key, options = match.groups()
        if kind == "table":
            other, _, name = key.rpartition("/")
            data = load(other) if other else study["data"]
            if not other:
                unplaced.pop(key, None)
            return place(data["tables"][name], reported, options)
        alt = " ".join(options.strip(" |").split()) or key
        return f"![{alt}](paper/{pictures.pop(key)})"

    def number(match):
        value, path = study["data"], match["path"]
        if path.startswith("other "):
            name, _, path = path.removeprefix("other ").partition("/")
            value = load(name)
        for key in path.split("/"):
            if key not in value:
                raise KeyError(
                    f"The words ask for {match[0]}, which the result of "
                    f"`{study['command']}` does not have."
                )
            value = value[key]
        return format(value, match["format"] or "")

    words = re.sub(
        r"\[\[(table|figure) ([\w/-]+)((?: *\|.*?)?)\]\]",
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
    short, _, long = words.partition(SPLIT)
    long = "\n\n".join([long.strip(), *left]).strip()
    return short.strip(), long.replace("](paper/", "](../paper/")


def _footers(name, study, words, folder):
    """Commands and files of all studies that a section shows."""
    lines = [_footer(name, study)]
    for other in BESIDE:
        if f"{other}/" in words:
            beside = json.loads((folder / f"{other}.json").read_text())
            lines.append(_footer(other, beside))
    return "\n\n".join(lines)


def _footer(name, study):
    return (
        f"`{study['command']}`: {study['seconds'] / 60:.1f} minutes on "
        f"{study['cores']} cores, {study['backend']}. "
        f"[All its numbers](../paper/{name}.json) (JSON)."
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if the page is not up to date",
    )
    options = parser.parse_args()
    pages = render()
    if options.check:
        stale = [p for p, text in pages.items() if p.read_text() != text]
        stale += outdated()
        sys.exit(f"out of date: {stale}" if stale else 0)
    draw_all()
    for path, text in pages.items():
        path.write_text(text)
        print(f"written to {path}")


if __name__ == "__main__":
    main()
