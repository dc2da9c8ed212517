"""Figures of the page that are drawn from recorded results alone.

`render.py` draws them. Each file holds a hash of the numbers that it shows,
so that `outdated` finds a figure whose study has been run again.
"""

import hashlib
import io
import json

from counting import column
from results import FOLDER, WIDTH, as_png, pyplot

HASH = "numbers"


def regressors(tables):
    """NLL of three methods, less that of a constant scale."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, 3.6), sharey=True)
    methods = {
        "predicted": ("the paper's: predicted scale", "o", "C0"),
        "beta-NLL": ("predicted scale, beta-NLL", "s", "C2"),
        "ours, recalibrated": ("ours, recalibrated", "D", "C1"),
    }
    for axis, depth in zip(axes, ("deep", "linear"), strict=True):
        table = tables[f"{depth}_NLL"]
        constant = column(table, "NLL constant, stopped")
        axis.axhline(0, color="0.5", linewidth=1)
        for name, (label, marker, color) in methods.items():
            found = column(table, f"NLL {name}")
            gap = [found[key] - constant[key] for key in constant]
            axis.plot(gap, marker, color=color, label=label, alpha=0.8)
        axis.set_xticks(range(len(constant)), list(constant), rotation=30)
        axis.set(title=f"{depth} regressors", yscale="symlog")
    axes[0].set(ylabel="NLL less that of a\nconstant scale (low is good)")
    axes[1].legend()
    return figure


def recalibration_tables(tables):
    """ECE of three methods, and the gain of LS over GS by NLL."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 3.6), sharey=True, width_ratios=(3, 2)
    )
    ece = tables["ece"]
    names = list(ece["rows"])
    noise = column(ece, "perfect model")
    left.barh(names, list(noise.values()), color="0.88", label="perfect model")
    marks = {"GS": "o", "LS": "D", "LFS": "^", "Isotonic": "x", "VS": "+"}
    for method, mark in marks.items():
        pairs = [
            (v, n) for n, v in column(ece, method).items() if v is not None
        ]
        left.plot(*zip(*pairs, strict=True), mark, label=method)
    left.set(xlabel="ECE (low is good)", xlim=(0, None))
    left.invert_yaxis()
    left.legend(loc="lower right")
    for name, (middle, low, high) in tables["ls_gs"]["rows"].items():
        right.plot([low, high], [name, name], color="C1")
        right.plot(middle, name, "D", color="C1")
    right.axvline(0, color="0.5", linewidth=1)
    right.set(xlabel="NLL of LS less that of GS,\n95 % interval")
    return figure


def temperatures_cifar10(tables):
    """Three detectors of three corruptions."""
    plt = pyplot()
    table = tables["aupr"]
    figure, axis = plt.subplots(figsize=(WIDTH, 3))
    kinds, count = list(table["rows"]), len(table["columns"])
    for i, name in enumerate(table["columns"]):
        places = [k + (i - (count - 1) / 2) * 0.26 for k in range(len(kinds))]
        bars = axis.bar(
            places, list(column(table, name).values()), 0.24, label=name
        )
        axis.bar_label(bars, fmt="%.2f", fontsize=9)
    axis.set_xticks(range(len(kinds)), kinds)
    axis.set(ylabel="area under the\nprecision-recall curve")
    axis.legend()
    return figure


DRAWN = {
    "regressors": regressors,
    "recalibration_tables": recalibration_tables,
    "temperatures_cifar10": temperatures_cifar10,
}


def drawn(name: str) -> dict:
    """Files of the figures of a study that this module draws, by name."""
    return {"chart": f"{name}_chart.png"} if name in DRAWN else {}


def draw_all() -> None:
    """Draws every figure whose numbers have changed."""
    from PIL import Image, PngImagePlugin

    for name, path in _stale():
        figure = DRAWN[name](_tables(name))
        note = PngImagePlugin.PngInfo()
        note.add_text(HASH, _hash(name))
        image = Image.open(io.BytesIO(as_png(figure)))
        image.save(path, pnginfo=note, optimize=True)


def outdated() -> list:
    """Paths of figures that show other numbers than the recorded ones."""
    return [path for _, path in _stale()]


def _stale():
    from PIL import Image

    for name in DRAWN:
        if not (FOLDER / f"{name}.json").exists():
            continue
        path = FOLDER / drawn(name)["chart"]
        if path.exists():
            with Image.open(path) as image:
                if image.text.get(HASH) == _hash(name):
                    continue
        yield name, path


def _tables(name):
    return json.loads((FOLDER / f"{name}.json").read_text())["data"]["tables"]


def _hash(name):
    text = json.dumps(_tables(name), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
