"""Tables of the page, as Markdown.

The words place a table with options, which `|` separates:

    [[table NAME | least in column | fold: All sets]]

- `least in column`, `most in column`, `least in row`, `most in row`: the best
  value is bold. The paper's columns are compared among themselves.
- `aside: A; B`: rows or columns that are no competitors, such as an oracle.
- `columns: A; B as b`, `rows: A; B as b`: these alone, perhaps renamed.
- `turned`: rows become columns.
- `ours`: without the paper's columns.
- `fold: TITLE`: hidden until a reader opens it.
"""

import math

PAPER = "*paper* "


class Measured(float):
    """A mean that knows its standard error."""

    def __new__(cls, value, error):
        made = super().__new__(cls, value)
        made.error = error
        return made


def place(table: dict, reported: dict, options: str = "") -> str:
    """A table of a study, as the words ask for it.

    Args:
        table: `columns`, `rows` and perhaps `errors`, `digits`, `paper`,
            `paper_columns` and `only_ours`.
        reported: the paper's tables by name.
        options: what the words say after the name of the table.
    """
    asked = _read(options)
    columns, rows = _beside(table, {} if "ours" in asked else reported)
    columns, rows = _select(columns, rows, asked)
    if "turned" in asked:
        if len(set(columns)) < len(columns):
            raise ValueError(
                "A table that is turned needs columns of different names. "
                f"Received: {columns}"
            )
        turned = {
            column: [row[i] for row in rows.values()]
            for i, column in enumerate(columns)
        }
        columns, rows = _pair(list(rows), turned)
    digits = table.get("digits", 3)
    bold = _best(columns, rows, asked, digits)
    lines = [["", *columns], ["---", *["---:"] * len(columns)]]
    for name, row in rows.items():
        cells = [cell(value, digits) for value in row]
        for i, text in enumerate(cells):
            if (name, i) in bold:
                cells[i] = f"**{text}**"
        lines.append([name, *cells])
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return fold(asked["fold"], text) if "fold" in asked else text


def fold(title: str, text: str) -> str:
    """Text that is hidden until a reader opens it."""
    opening = f"<details>\n<summary>{title}</summary>"
    return f"{opening}\n\n{text}\n\n</details>"


def cell(value, digits: int) -> str:
    """A value as a table shows it."""
    if value is None:
        return "–"
    if isinstance(value, Measured):
        return f"{cell(float(value), digits)} ± {cell(value.error, digits)}"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 10_000:
        return f"{value:,.0f}"
    text = f"{value:.{digits}f}"
    return text.lstrip("-") if float(text) == 0 else text


KNOWN = {"aside", "columns", "rows", "fold", "turned", "ours"}


def _read(options):
    asked = {}
    for part in filter(None, map(str.strip, options.split("|"))):
        key, _, value = part.partition(":")
        if " in " in key and not value:
            key, value = "best", key
        elif key not in KNOWN:
            raise ValueError(
                f"A table has the options {sorted(KNOWN)} and 'least in "
                f"column', 'most in row' and the like. Received: {part!r}"
            )
        asked[key] = " ".join(value.split())
    return asked


def _beside(table, reported):
    """Our columns and the paper's, and the rows of both."""
    empty = {"columns": [], "rows": {}}
    paper = reported.get(table.get("paper"), empty)
    wanted = table.get("paper_columns", paper["columns"])
    wanted = [column for column in wanted if column in paper["columns"]]
    places = [paper["columns"].index(column) for column in wanted]
    names = list(table["rows"])
    if not table.get("only_ours"):
        names += [name for name in paper["rows"] if name not in names]
    rows = {}
    for name in names:
        ours = _measured(table, name)
        theirs = paper["rows"].get(name, [None] * len(paper["columns"]))
        rows[name] = [*ours, *(theirs[place] for place in places)]
    return [*table["columns"], *(PAPER + c for c in wanted)], rows


def _measured(table, name):
    """A row of ours, with standard errors where there are any."""
    gaps = [None] * len(table["columns"])
    values = table["rows"].get(name, gaps)
    errors = table.get("errors", {}).get(name, gaps)
    return [
        value if error is None else Measured(value, error)
        for value, error in zip(values, errors, strict=True)
    ]


def _select(columns, rows, asked):
    if "columns" in asked:
        chosen = _names(asked["columns"], columns)
        places = [columns.index(name) for name in chosen]
        columns = list(chosen.values())
        rows = {n: [row[i] for i in places] for n, row in rows.items()}
    if "rows" in asked:
        chosen = _names(asked["rows"], rows)
        rows = {new: rows[old] for old, new in chosen.items()}
    return columns, rows


def _names(words, known):
    """`A; B as b` as `{A: A, B: b}`; a quick study may lack some."""
    pairs = [part.strip().partition(" as ") for part in words.split(";")]
    return {old: new or old for old, _, new in pairs if old in known}


def _pair(columns, rows):
    """The paper's rows of a turned table become columns beside ours."""
    theirs = {n for n in rows if n.startswith(PAPER)}
    if not theirs:
        return columns, rows
    beside = {
        name: [
            value
            for i in range(len(columns))
            for value in (row[i], rows.get(PAPER + name, [None] * (i + 1))[i])
        ]
        for name, row in rows.items()
        if name not in theirs
    }
    return [part for c in columns for part in (c, PAPER + c)], beside


def _best(columns, rows, asked, digits):
    """The places `(row, column)` of the values that are bold.

    Values that look equal on the page are equally good.
    """
    if "best" not in asked:
        return set()
    which, _, line = asked["best"].split()
    pick = {"least": min, "most": max}[which]
    aside = set(asked.get("aside", "").split("; "))
    groups = {}
    for name, row in rows.items():
        for i, (column, value) in enumerate(zip(columns, row, strict=True)):
            number = isinstance(value, int | float) and math.isfinite(value)
            if not number or aside & {name, column}:
                continue
            paper = column.startswith(PAPER)
            key = i if line == "column" else (name, paper)
            shown = round(value, digits)
            groups.setdefault(key, []).append((shown, (name, i)))
    bold = set()
    for found in groups.values():
        best = pick(value for value, _ in found)
        if len(found) > 1:
            bold |= {where for value, where in found if value == best}
    return bold
