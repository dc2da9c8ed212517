"""Writes the tables and the figure of docs/studies/uncertainty.md.

python benchmarks/uncertainty_page.py
"""

import json
import pathlib

import numpy as np
import page_tables
import paired

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "uncertainty.json"
RECIPES = ROOT / "docs" / "results" / "recipes.json"
DEVELOPMENT = ("autompg", "bank8FM")
"""Learning rate and epochs were chosen on these, so they are no report."""
OVERLAP = 1 / 9
"""Test rows over training rows of the splits."""
RECIPES_CHOSEN_ON = ("autompg", "cpu_act", "kin8nm", "soil")
FIGURE = ROOT / "docs" / "_static" / "uncertainty.png"
ONE_NETWORK = (
    *("squared error", "normal", "normal, beta .5", "mixture of 3"),
    "Student's t",
)
SEVERAL = (
    *("normal, 5 members", "Student's t, 5 members", "Student's t, 8 members"),
    *("MC dropout", "NGBoost", "CatBoost"),
)
INTERVALS = (
    *("squared error", "normal", "Student's t", "quantiles", "mixture of 3"),
    *("Student's t, 5 members", "MC dropout", "NGBoost", "CatBoost"),
)


def methods_of(results, names):
    """Those that were run on every set."""
    return [
        n for n in names if all(n in r["methods"] for r in results.values())
    ]


def scores_table(results, names, key):
    """Mean and standard error by set; the lowest mean of a row is bold.

    A dash stands for a method that was not run on a set.
    """
    names = [
        n for n in names if any(n in r["methods"] for r in results.values())
    ]
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for name, result in sorted(results.items()):
        values = {
            n: result["methods"][n][key]
            for n in names
            if n in result["methods"]
        }
        means = {n: np.mean(v) for n, v in values.items()}
        digits = 3 if max(map(abs, means.values())) < 10 else 2
        cells = []
        for n in names:
            if n not in values:
                cells.append("–")
                continue
            text = f"{means[n]:.{digits}f}"
            text = f"**{text}**" if n == min(means, key=means.get) else text
            error = np.std(values[n], ddof=1) / len(values[n]) ** 0.5
            cells.append(f"{text} ± {error:.2g}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def intervals_table(results):
    """Coverage and width of intervals, as means over all sets.

    Widths are in units of the conformal interval around squared error.
    """
    units = {
        name: np.mean(r["methods"]["squared error"]["width conformal"])
        for name, r in results.items()
    }
    kinds = ("plain", "recalibrated", "conformal")
    header = [f"coverage, {k}" for k in kinds] + [f"width, {k}" for k in kinds]
    lines = [f"| | {' | '.join(header)} |", "|---|" + "---:|" * len(header)]
    for method in methods_of(results, INTERVALS):
        cells = []
        for what in ("coverage", "width"):
            for kind in kinds:
                found = [
                    np.mean(r["methods"][method][f"{what} {kind}"])
                    / (units[name] if what == "width" else 1)
                    for name, r in results.items()
                    if f"{what} {kind}" in r["methods"][method]
                ]
                cells.append(f"{np.mean(found):.3f}" if found else "–")
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def wins(results, ours, peer):
    """On how many report sets the mean NLL is lower, on the splits both have.

    Returns:
        Sets with the lower mean, sets where the corrected interval of the
        difference is below zero, sets where it is above zero, and all sets.
    """
    count, below, above, total = 0, 0, 0, 0
    for name, result in results.items():
        if peer not in result["methods"] or name in DEVELOPMENT:
            continue
        theirs = result["methods"][peer]["nll"]
        mine = result["methods"][ours]["nll"][: len(theirs)]
        count += int(np.mean(mine) < np.mean(theirs))
        below += paired.is_below(mine, theirs, overlap=OVERLAP)
        above += paired.is_below(theirs, mine, overlap=OVERLAP)
        total += 1
    return count, below, above, total


def wins_text(results):
    one, five = "Student's t", "Student's t, 5 members"
    pairs = [(one, "normal"), (five, one)]
    pairs += [(five, p) for p in ("normal, 5 members", "NGBoost", "CatBoost")]
    lines = []
    for ours, peer in pairs:
        count, below, above, total = wins(results, ours, peer)
        lines.append(
            f"- {ours} below {peer}: {count} of {total} sets; clearly below on "
            f"{below}, clearly above on {above}."
        )
    return "\n".join(lines)


def tables(results) -> dict:
    return {
        "one network": scores_table(results, ONE_NETWORK, "nll"),
        "several": scores_table(results, SEVERAL, "nll"),
        "rmse": scores_table(results, (*ONE_NETWORK, *SEVERAL), "rmse"),
        "intervals": intervals_table(results),
        "wins": wins_text(results),
    }


def draw(results):
    """Nats won over squared error, a row of dots for each set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = {
        "normal": ("#9ecae1", "o"),
        "Student's t": ("#3182bd", "o"),
        "Student's t, 5 members": ("#08306b", "D"),
        "NGBoost": ("#fd8d3c", "s"),
        "CatBoost": ("#a63603", "^"),
    }
    names = sorted(
        results,
        key=lambda n: _gain(results[n], "Student's t, 5 members"),
    )
    figure, axes = plt.subplots(figsize=(7.2, 0.42 * len(names) + 1.4))
    for method, (colour, marker) in shown.items():
        places = [
            (_gain(results[name], method), place)
            for place, name in enumerate(names)
            if method in results[name]["methods"]
        ]
        axes.plot(
            *np.transpose(places),
            marker,
            color=colour,
            markersize=7,
            label=method,
        )
    axes.axvline(0, color="0.6", linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("NLL gained over squared error (nats per example)")
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.legend(
        frameon=False, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=3
    )
    figure.tight_layout()
    figure.savefig(FIGURE, dpi=150)


def _gain(result, method):
    theirs = result["methods"][method]["nll"]
    base = result["methods"]["squared error"]["nll"][: len(theirs)]
    return np.mean(base) - np.mean(theirs)


ADVISED = "five: t, beta 1, hidden layer"


def against_plain(results, name, group=""):
    """NLL less that of `t`, and RMSE over that of squared error, of each set.

    The sets on which recipes were chosen come first, then the others; `None`
    for sets without this recipe.
    """
    chosen = [r for n, r in results.items() if n in RECIPES_CHOSEN_ON]
    others = [r for n, r in results.items() if n not in RECIPES_CHOSEN_ON]
    for sets in (chosen, others):
        if not all(name in recipes for recipes in sets):
            yield None
            continue
        means = [
            {n: [np.mean(r[n][k]) for k in ("nll", "rmse")] for n in r}
            for r in sets
        ]
        yield (
            [m[name][0] - m[group + "t"][0] for m in means],
            [m[name][1] / m[group + "squared error"][1] for m in means],
        )


def recipes_table(results, group=""):
    """Mean difference of the NLL and largest ratio of the RMSE.

    Recipes of a group have names that start with it.
    """
    lines = [
        "| | NLL, 4 sets | largest RMSE, 4 sets "
        "| NLL, other sets | largest RMSE, other sets |",
        "|---|" + "---:|" * 4,
    ]
    for name in results["soil"]:
        if not name.startswith(group) or (":" in name) != (":" in group):
            continue
        cells = []
        for found in against_plain(results, name, group):
            nll, rmse = found or (None, None)
            cells += (
                [f"{np.mean(nll):+.3f}", f"{max(rmse):.3f}"] if nll else "––"
            )
        lines.append(f"| {name.removeprefix(group)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def recipes_text(results):
    def words(name):
        parts = list(against_plain(results, f"five: {name}", "five: "))
        nll = " and ".join(f"{np.mean(n):+.3f}" for n, _ in parts)
        above = max(r for _, rmse in parts for r in rmse) - 1
        return f"NLL {nll}, RMSE at most {above:.1%} above squared error"

    return "\n".join(
        (
            f"- **Advised** (`beta=1`, hidden layer): "
            f"{words('t, beta 1, hidden layer')}.",
            f"- Plain Student's t: {words('t')}.",
            f"- `beta=0.5`, hidden layer: {words('t, beta .5, hidden layer')}.",
            "- The mean trained by squared error, own features: "
            f"{words('t, squared mean, own features')}.",
        )
    )


def recipes_tables():
    results = json.loads(RECIPES.read_text())
    return {
        "recipes": recipes_table(results),
        "recipes of five": recipes_table(results, "five: "),
        "recipes in words": recipes_text(results),
    }


def main():
    results = json.loads(RESULTS.read_text())
    page_tables.fill(
        "studies/uncertainty", {**tables(results), **recipes_tables()}
    )
    draw(results)


if __name__ == "__main__":
    main()
