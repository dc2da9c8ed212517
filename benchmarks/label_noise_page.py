"""Writes the tables and the figure of docs/studies/label_noise.md.

python benchmarks/label_noise_page.py
"""

import json
import pathlib

import numpy as np
import page_tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "label_noise.json"
COUNTS = ROOT / "docs" / "results" / "label_counts.json"
FIGURE = ROOT / "docs" / "_static" / "label_noise.png"
OURS = "NoisyLabelsLoss (ELR)"
EPOCHS = 30
SHORTER, LONGER = ", 24 epochs", ", 50 epochs"
AUM = "AUM of the cross-entropy"
METHODS = (
    *("cross-entropy", AUM, "stopped by held-out labels"),
    "early selection",
    *("label smoothing", "data temperatures"),
    *(OURS, OURS + SHORTER, OURS + LONGER, "cleanlab, five folds"),
)
LABELS = {
    "cifar10": ("clean", "aggre", "random1", "worse"),
    "digits": ("0", "0.4", "pairs0.3"),
}
SHARES = {
    "clean": "0 %",
    "aggre": "9 %",
    "random1": "17 %",
    "worse": "40 %",
    "0": "0 % wrong",
    "0.4": "40 % at random",
    "pairs0.3": "30 % to the next class",
}


def select(results, data, labels, method, key):
    """Values of the seeds, or an empty list."""
    epochs = EPOCHS
    if method == AUM:
        # It ranks labels by what a run of cross-entropy has recorded.
        if key != "precision":
            return []
        method, key = "cross-entropy", "precision of AUM"
    for length in (SHORTER, LONGER):
        if method.endswith(length):
            method, epochs = method.removesuffix(length), int(length.split()[1])
    wanted = data, labels, method, epochs
    return [
        r[key]
        for r in results
        if (r["data"], r["labels"], r["method"], r["epochs"]) == wanted
        and r.get(key) is not None
    ]


def _cell(values, digits, scale=1.0):
    if not values:
        return "–"
    values = scale * np.array(values)
    text = f"{values.mean():.{digits}f}"
    if len(values) > 1:
        error = values.std(ddof=1) / np.sqrt(len(values))
        text += f" ± {error:.{digits}f}"
    return text


def _table(results, data, cells):
    labels = LABELS[data]
    heads = " | ".join(f"{name}, {SHARES[name]}" for name in labels)
    if data == "digits":
        heads = " | ".join(SHARES[name] for name in labels)
    lines = [f"| | {heads} |", "|---|" + "---:|" * len(labels)]
    for method in METHODS:
        row = [cells(results, data, name, method) for name in labels]
        if set(row) != {"–"}:
            lines.append(f"| {method} | {' | '.join(row)} |")
    return "\n".join(lines)


def _accuracy(results, data, labels, method):
    return _cell(select(results, data, labels, method, "accuracy"), 1, 100)


def _precision(results, data, labels, method):
    return _cell(select(results, data, labels, method, "precision"), 3)


def _count(results, data, labels, method):
    found = select(results, data, labels, method, "found")
    if not found:
        return "–"
    wrong = np.mean(select(results, data, labels, method, "wrong"))
    return f"{np.mean(found):,.0f} of {wrong:,.0f}"


COLUMNS = {"accuracy": _accuracy, "precision": _precision, "count": _count}


def _hundred_classes(results):
    heads = "accuracy, % | average precision | suspected | seeds"
    lines = [f"| | {heads} |", "|---|" + "---:|" * 4]
    for method in METHODS:
        given = results, "cifar100", "0.4", method
        row = [cells(*given) for cells in COLUMNS.values()]
        if set(row) != {"–"}:
            keys = ("accuracy", "precision")
            seeds = max(len(select(*given, key)) for key in keys)
            lines.append(f"| {method} | {' | '.join(row)} | {seeds} |")
    return "\n".join(lines)


def counts_table(counts):
    """One row for each table and share of wrong labels, means of seeds."""
    columns = ("rows", "wrong", "suspected", "rightly", "sure", "overlapping")
    heads = (
        "rows | wrong | suspected | of them wrong | if inputs show their class "
        "| if classes overlap"
    )
    lines = [f"| | {heads} |", "|---|" + "---:|" * len(columns)]
    for name, shares in counts.items():
        for runs in shares.values():
            means = (np.mean([run[key] for run in runs]) for key in columns)
            cells = " | ".join(f"{mean:,.0f}" for mean in means)
            lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def tables(results) -> dict:
    """Markdown by the name of its place on the page."""
    found = {
        f"{name} of {data}": _table(results, data, cells)
        for data in LABELS
        for name, cells in COLUMNS.items()
    }
    found["cifar100"] = _hundred_classes(results)
    found["overlapping"] = counts_table(json.loads(COUNTS.read_text()))
    return found


def draw(results):
    """A point for each method, with its standard error."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    panels = (
        ("accuracy", "test accuracy (%)", 100),
        ("precision", "average precision", 1),
    )
    for axis, (key, title, scale) in zip(axes, panels, strict=True):
        shown = [
            m
            for m in METHODS
            if not m.endswith("epochs")
            and select(results, "cifar10", "worse", m, key)
        ]
        for at, method in enumerate(reversed(shown)):
            values = select(results, "cifar10", "worse", method, key)
            mean = scale * np.mean(values)
            error = scale * np.std(values, ddof=1) / len(values) ** 0.5
            color = "#2b6cb0" if method == OURS else "#718096"
            axis.errorbar(mean, at, xerr=error, fmt="o", color=color)
            text = f"{mean:.1f}" if scale == 100 else f"{mean:.3f}"
            axis.annotate(
                text,
                (mean, at),
                (0, 6),
                textcoords="offset points",
                ha="center",
            )
        axis.set_yticks(range(len(shown)), list(reversed(shown)))
        axis.set(
            xlabel=f"{title}, higher is better", xlim=(0.55 * scale, scale)
        )
        axis.set_ylim(-0.5, len(shown) - 0.3)
        axis.grid(axis="x", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle("CIFAR-10N with 40 % wrong labels; error bars: one SE")
    figure.savefig(FIGURE, dpi=110)


def main():
    results = json.loads(RESULTS.read_text())
    page_tables.fill("studies/label_noise", tables(results))
    draw(results)


if __name__ == "__main__":
    main()
