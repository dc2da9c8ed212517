"""Prints a reliability diagram as text."""

from keras_likelihood.commands.console import printable

_WIDTH = 20


def print_diagram(console, task, before: list, after: list) -> None:
    """Prints what the model predicts and what is observed."""
    names = [row["name"] for row in before]
    names += [row["name"] for row in after if row["name"] not in names]
    names.sort(key=lambda name: int(name.split("-")[0].split()[0]))
    sides = [("before", before), ("after", after)]
    sides = [(title, curve) for title, curve in sides if curve]
    columns, rows = [task.expected], [[name] for name in names]
    for title, curve in sides:
        columns += [f"{title}: {task.observed}", ""]
        known = {row["name"]: row for row in curve}
        for row, name in zip(rows, names, strict=True):
            row += _cells(known.get(name))
    console.table(columns, rows)
    mark = printable("│", "|")
    console.say(
        f"(bars: {task.observed}; {mark}: {task.expected}. Calibrated bars "
        f"end at {mark}.)",
        "dim",
    )


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
