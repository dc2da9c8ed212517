"""Fills the tables of the documentation with the stored results.

    python benchmarks/tables_of_pages.py

A table stands between a mark, which says where its numbers are, and `<!-- end
-->`:

    <!-- table results/uncertainty {row}/methods/{column}/nll | plain -->

The first word is a file below `docs`, without `.json`. The second is a path in
it: `{row}` and `{column}` take every key in turn, and all numbers below a path
are averaged, with their standard error if a list of repeats is below it. In a
list of records, `labels=clean` chooses those with this value, and
`{row}=method` takes the values of a field in turn. `*` averages over all keys.
A path may also end at a stored table with `columns`, `rows` and perhaps
`errors`. Options follow, separated by `|`:

- `rows: A; B as b` and `columns: A; B as b`: only these, perhaps renamed.
- `best: least in row` (or `most`, `column`): the best value is bold.
  `except: A; B`: rows or columns that do not compete.
- `digits: 2`, `times: 100`, `plain` (no standard errors).
- `paper: NAME; A; B as b`: columns of `benchmarks/paper/reported.json`.
- `turned`: rows become columns.
"""

import json
import pathlib
import re
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[1]
REPORTED = ROOT / "benchmarks" / "paper" / "reported.json"
MARK = re.compile(
    r"(?P<mark><!-- table (?P<file>\S+) (?P<path>.*?)"
    r"(?: \| (?P<options>.*?))? -->\n).*?(?P<end><!-- end -->)",
    re.DOTALL,
)


def pages():
    """The pages that may have tables."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))


def filled(text: str) -> str:
    """The text of a page with its tables made anew."""
    return MARK.sub(lambda m: m["mark"] + table(m) + m["end"], text)


def table(mark) -> str:
    """Markdown of a table."""
    options = dict(
        part.strip().partition(": ")[::2]
        for part in (mark["options"] or "").replace("\n", " ").split(" | ")
        if part.strip()
    )
    content = json.loads((ROOT / "docs" / f"{mark['file']}.json").read_text())
    cells = cells_of(content, " ".join(mark["path"].split()).split("/"))
    if "turned" in options:
        cells = {(column, row): v for (row, column), v in cells.items()}
    columns = named(options.get("columns"), [column for _, column in cells])
    rows = named(options.get("rows"), [row for row, _ in cells])
    times, digits = (
        float(options.get("times", 1)),
        int(options.get("digits", 3)),
    )
    shown = {
        (row, column): scaled(cells.get((old_row, old)), times)
        for old_row, row in rows.items()
        for old, column in columns.items()
    }
    add_paper(shown, rows.values(), options.get("paper"))
    bold = best(shown, options, digits)
    heads = list(dict.fromkeys(column for _, column in shown))
    lines = [["", *heads], ["---", *["---:"] * len(heads)]]
    for row in rows.values():
        texts = [
            cell(shown.get((row, h)), digits, "plain" in options) for h in heads
        ]
        for i, head in enumerate(heads):
            if (row, head) in bold:
                texts[i] = f"**{texts[i]}**"
        lines.append([row, *texts])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def named(words, keys):
    """`A; B as b` as `{A: A, B: b}`; all keys by default."""
    if words is None:
        return {key: key for key in keys}
    pairs = [part.strip().partition(" as ") for part in words.split(";")]
    for old, _, _ in pairs:
        if old not in keys:
            raise KeyError(f"No {old!r} among {sorted(set(keys))}")
    return {old: new or old for old, _, new in pairs}


def cells_of(content, path, names=None):
    """`(value, standard error)` by row and column."""
    names = names or {"{row}": "", "{column}": ""}
    if not path and isinstance(content, dict) and "columns" in content:
        return dict(stored(content))
    if not path:
        return {tuple(names.values()): average(content)}
    first, *rest = path
    if isinstance(content, list) and isinstance(content[0], dict):
        first, _, field = first.partition("=")
        if first not in names and not field:
            values = [record.get(first) for record in content]
            return cells_of(values, rest, names)
        if first not in names:
            chosen = [r for r in content if str(r.get(first)) == field]
            return cells_of(chosen, rest, names)
        groups = {}
        for record in content:
            groups.setdefault(str(record[field]), []).append(record)
        content = groups
    if isinstance(content, list) and first == "*":
        content = {str(i): value for i, value in enumerate(content)}
    if first == "*":
        repeats = {}
        for value in content.values():
            for place, (mean, _) in cells_of(value, rest, names).items():
                repeats.setdefault(place, []).append(mean)
        return {place: average(means) for place, means in repeats.items()}
    if first not in names:
        below = (
            content[int(first)]
            if isinstance(content, list)
            else content.get(first)
        )
        return {} if below is None else cells_of(below, rest, names)
    found = {}
    for key, value in content.items():
        found |= cells_of(value, rest, {**names, first: key})
    return found


def stored(content):
    errors = content.get("errors", {})
    for row, values in content["rows"].items():
        gaps = errors.get(row, [None] * len(values))
        for column, value, error in zip(
            content["columns"], values, gaps, strict=True
        ):
            yield (row, column), (value, error)


def average(values):
    """Mean and standard error of repeats; texts and numbers stay."""
    if not isinstance(values, list):
        return values, None
    numbers = np.array([v for v in values if v is not None], float)
    if len(numbers) < 2:
        return (float(numbers[0]) if len(numbers) else None), None
    return float(numbers.mean()), float(
        numbers.std(ddof=1) / len(numbers) ** 0.5
    )


def scaled(pair, times):
    value, error = pair or (None, None)
    if isinstance(value, int | float) and times != 1:
        return value * times, error and error * times
    return value, error


def add_paper(shown, rows, words):
    """Columns of the paper's own table, in italics."""
    if words is None:
        return
    name, _, names = words.partition("; ")
    reported = json.loads(REPORTED.read_text())[name]
    for old, new in named(names or None, reported["columns"]).items():
        place = reported["columns"].index(old)
        for row in rows:
            values = reported["rows"].get(row)
            shown[row, f"*{new}*"] = (values[place] if values else None, None)


def best(shown, options, digits):
    """Rows and columns of the best values; equal texts are equally good."""
    if "best" not in options:
        return set()
    which, _, line = options["best"].split()
    skip = set(options.get("except", "").split("; "))
    groups = {}
    for (row, column), (value, _) in shown.items():
        if isinstance(value, int | float) and not skip & {row, column}:
            key = (row if line == "row" else column), column.startswith("*")
            groups.setdefault(key, {})[row, column] = round(value, digits)
    pick = min if which == "least" else max
    return {
        place
        for values in groups.values()
        if len(values) > 1
        for place, value in values.items()
        if value == pick(values.values())
    }


def cell(pair, digits, plain):
    """A value as a table shows it."""
    value, error = pair or (None, None)
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if abs(value) >= 10_000 or isinstance(value, int):
        return f"{value:,.0f}"
    text = f"{value:.{digits}f}"
    text = text.lstrip("-") if float(text) == 0 else text
    return text if error is None or plain else f"{text} ± {error:.{digits}f}"


if __name__ == "__main__":
    stale = False
    for path in pages():
        text = path.read_text()
        if (new := filled(text)) != text:
            stale = True
            path.write_text(new)
            print(path.relative_to(ROOT))
    sys.exit(
        "tables were out of date" if stale and "--check" in sys.argv else 0
    )
