"""Prints a reliability diagram as text."""

from keras_likelihood.commands.console import printable

_WIDTH = 20


def print_diagram(console, task, before: list, after: list) -> None:
    """Prints what the model predicts and what is observed."""
    names = {row["name"] for row in before + after}
    rows = {name: [name] for name in sorted(names, key=_first_number)}
    columns = [task.expected]
    for title, curve in {"before": before, "after": after}.items():
        if curve:
            columns += [f"{title}: {task.observed}", ""]
            known = {row["name"]: row for row in curve}
            for name, cells in rows.items():
                cells += _cells(known.get(name))
    console.table(columns, list(rows.values()))
    mark = printable("│", "|")
    console.say(
        f"(bars: {task.observed}; {mark}: {task.expected}. Calibrated bars "
        f"end at {mark}.)",
        "dim",
    )


def _first_number(name):
    return int(name.split("-")[0].split()[0])


def _cells(row):
    if row is None:
        return ["-", ""]
    return [f"{row['observed']:.0%}", bar(row["observed"], row["expected"])]


def bar(share: float, mark: float) -> str:
    """A bar as long as the share, with a line at the mark."""
    filled = round(share * _WIDTH)
    full = printable("█", "#")
    empty, line = printable("·", "."), printable("│", "|")
    cells = [full] * filled + [empty] * (_WIDTH - filled)
    cells.insert(round(mark * _WIDTH), line)
    return "".join(cells)
