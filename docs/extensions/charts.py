"""Charts of the tables on the pages.

Each reads its numbers from the table that stands on the page, so that the
chart and the table cannot disagree.
"""

import pathlib
import re

import matplotlib.pyplot as plt

DOCS = pathlib.Path(__file__).parents[1]
BLUE, ORANGE, GREY = "#2b6cb0", "#c05621", "#a0aec0"


def table(page: str, after: str) -> list[list[str]]:
    """The cells of the first table after a text, without marks."""
    text = (DOCS / f"{page}.md").read_text()
    lines = text[text.index(after) + len(after) :].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        if not set(line) <= set("|-: "):
            cells = re.sub(r"[`*]", "", line).strip().strip("|").split("|")
            rows.append([cell.strip() for cell in cells])
    return rows


def number(cell: str) -> float:
    """The first number of a cell, NaN if there is none."""
    found = re.search(r"[-+]?\d*\.?\d+(e-?\d+)?", cell)
    return float(found[0]) if found else float("nan")


def outlier_ranks():
    """Mean ranks of the detectors, with ours in blue."""
    text = (DOCS / "studies" / "outliers.md").read_text()
    rows = table("studies/outliers", "<!-- ranks -->")[1:]
    ours = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.M))
    ours.add("Auto without its deep part")
    figure, axes = plt.subplots(figsize=(7, 5))
    for place, row in enumerate(reversed(rows)):
        color = BLUE if row[0] in ours else GREY
        axes.barh(place, number(row[2]), color=color)
    axes.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
    axes.set_xlabel("mean rank by AUC on 18 tables (lower is better)")
    axes.margins(y=0.01)
    _name_colours(axes)


def _name_colours(axes):
    """A legend for our methods in blue and the others in grey."""
    for color, name in ((BLUE, "this package"), (GREY, "others")):
        axes.scatter([], [], color=color, marker="s", label=name)
    axes.legend(frameon=False, loc="lower right")


def slope_errors():
    """Errors that nine of ten fits stay below, by method and outliers."""
    rows = table("studies/robust_regression", "<!-- line -->")[2:]
    figure, panels = plt.subplots(1, 3, figsize=(9, 3.6), sharey=True)
    kinds = ("spread at large x", "in a cluster", "at random x")
    names = [row[0] for row in reversed(rows)]
    for axes, kind, column in zip(panels, kinds, (3, 7, 11), strict=True):
        errors = [number(row[column]) for row in reversed(rows)]
        ours = ("MPLS", "DPLS", "affine")
        colors = [BLUE if n.startswith(ours) else GREY for n in names]
        axes.scatter(errors, range(len(names)), color=colors)
        axes.set(xscale="log", title=f"outliers {kind}")
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(range(len(names)), names)
    panels[1].set_xlabel("error of the slope, 90 % of the fits are below")
    _name_colours(panels[2])


def table_gaps():
    """NLL of the peers minus ours, one line a table."""
    _, *rows = table("studies/tables", "<!-- nll -->")
    figure, axes = plt.subplots(figsize=(7, 3.6))
    names = [row[0] for row in reversed(rows)]
    peers = {"NGBoost": (ORANGE, "o"), "CatBoost": (GREY, "o")}
    peers["GP"] = ("0.2", "D")
    for column, (peer, (color, mark)) in enumerate(peers.items(), 2):
        gaps = [number(r[column]) - number(r[1]) for r in reversed(rows)]
        axes.scatter(gaps, range(len(rows)), c=color, marker=mark, label=peer)
    axes.axvline(0, color=BLUE, linewidth=2, label="kl.tabular")
    axes.set_yticks(range(len(rows)), names)
    axes.set_xlabel("test NLL minus that of kl.tabular, in nats")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(frameon=False)


def recalibration_gains():
    """What each method gains over one temperature, on six networks."""
    header, *rows = table("studies/recalibration", "<!-- report -->")
    figure, axes = plt.subplots(figsize=(8, 3.4))
    marks = {"LFS": "s", "isotonic mix": "^", "SMS": "D", "Auto": "o"}
    for method, mark in marks.items():
        column = header.index(method)
        gains = [
            100 * (1 - number(row[column]) / number(row[1])) for row in rows
        ]
        color = BLUE if method in ("Auto", "LFS") else GREY
        axes.scatter(gains, range(len(rows)), marker=mark, color=color)
        axes.scatter([], [], marker=mark, color=color, label=method)
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.axvline(0, color="0.5", linewidth=1)
    axes.set_xlabel("test NLL below that of one temperature, in percent")
    axes.legend(frameon=False)


def step_costs():
    """The time of a training step with likelihood parameters."""
    rows = table("studies/speed", "<!-- steps -->")[1:]
    figure, axes = plt.subplots(figsize=(7, 2.2))
    names = [row[0] for row in reversed(rows)]
    extra = [100 * (number(row[1]) - 1) for row in reversed(rows)]
    bars = axes.barh(names, extra, color=BLUE)
    axes.bar_label(bars, fmt="%.1f %%", padding=3)
    axes.set(xlim=(0, 5), xlabel="additional time of a training step, in %")


def one_idea():
    """A likelihood in the middle, and what is made of it around it."""
    figure, axes = plt.subplots(figsize=(7, 2.8))
    axes.set(xlim=(0, 10), ylim=(0, 4))
    axes.axis("off")
    around = {
        (1.6, 3.3): "head\npredicts its parameters",
        (5.0, 3.3): "loss\nits negative logarithm",
        (8.4, 3.3): "data parameter\none value per example",
        (1.6, 0.6): "recalibrator\nfitted on a frozen model",
        (5.0, 0.6): "outlier detector\nits scale is the score",
        (8.4, 0.6): "regularizer\na likelihood on weights",
    }
    style = {"ha": "center", "va": "center"}
    for (x, y), text in around.items():
        axes.plot([5, x], [2, y], color=GREY, zorder=0)
        box = {"boxstyle": "round", "fc": "white", "ec": GREY}
        axes.text(x, y, text, fontsize=9, bbox=box, **style)
    box = {"boxstyle": "round", "fc": BLUE, "ec": BLUE}
    axes.text(
        5, 2, "likelihood", color="white", weight="bold", bbox=box, **style
    )


def shares_of_a_table():
    """Memory of a device against the number of devices."""
    rows = table("scaling", "## Over devices")[1:]
    figure, axes = plt.subplots(figsize=(6, 2.6))
    axes.bar([row[0] for row in rows], [number(r[1]) for r in rows], color=BLUE)
    axes.set(xlabel="devices", ylabel="MB per device")
