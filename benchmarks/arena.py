"""Recalibrators on the probabilities of scikit-learn's classifiers.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/arena.py

The tables are real ones: regression targets, cut into 2 to 5 classes at their
quantiles, the ODDS sets, and the sets that scikit-learn ships. Each table has
five classifiers and calibration sets of 50, 200 and 1,000 rows. `--cache` is a
folder for the probabilities of the classifiers. The settings of `AutoScaling`
were chosen on the tables in `DEVELOPMENT`. Scores are the log loss of
probabilities of at least 1e-12. Tables of at most 4,000 rows have two splits,
whose scores are averaged.
"""

import argparse
import json
import os
import pathlib
import tempfile
import warnings

import numpy as np
from recalibration_peers import ARENA
from sklearn import datasets, ensemble, linear_model, naive_bayes
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

DOCS = pathlib.Path(__file__).parents[1] / "docs"
STORE = DOCS / "results" / "arena.json"
DEVELOPMENT = (
    "autompg cpu_act crime_norm kin8nm soil annthyroid breastw glass letter "
    "mnist optdigits pima shuttle vowels iris digits"
).split()
"""Tables on which settings may be chosen. All others are for reports."""
SIZES = (50, 200, 1000)
CLASSIFIERS = {
    "logistic": lambda: linear_model.LogisticRegression(max_iter=1000),
    "forest": lambda: ensemble.RandomForestClassifier(random_state=0),
    "naive Bayes": naive_bayes.GaussianNB,
    "boosting": lambda: ensemble.HistGradientBoostingClassifier(random_state=0),
    "MLP": lambda: MLPClassifier(random_state=0),
}


def tables(folder):
    """Yields name, half, inputs and labels of every table."""

    def half(name):
        return "development" if name in DEVELOPMENT else "report"

    for number, path in enumerate(sorted((folder / "regression").iterdir())):
        file = np.load(path)
        x, y = np.nan_to_num(file["X"]), file["y"]
        for classes in (2, 3 + number % 3):
            cuts = np.unique(np.quantile(y, np.arange(1, classes) / classes))
            labels = np.searchsorted(cuts, y)
            yield f"{path.stem} in {classes}", half(path.stem), x, labels
    for path in sorted((folder / "odds").iterdir()):
        file = np.load(path)
        yield path.stem, half(path.stem), file["X"], file["y"].astype(int)
    for name in ("iris", "wine", "breast_cancer", "digits"):
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        yield name, half(name), x, y


def experiments(folder, cache, only):
    """Yields a dict of facts and pairs of (validation, test)."""
    for name, half, x, y in tables(folder):
        if only not in (half, "all"):
            continue
        y = np.unique(y, return_inverse=True)[1]
        for classifier in CLASSIFIERS:
            splits = [
                outputs(cache, name, classifier, x, y, seed)
                for seed in range(1 if len(y) > 4000 else 2)
            ]
            for size in SIZES:
                pairs = [
                    (
                        {"p": p[:size], "y": labels[:size]},
                        {"p": p[size:][-5000:], "y": labels[size:][-5000:]},
                    )
                    for p, labels in splits
                    if len(labels) >= size + 50
                ]
                if pairs:
                    facts = {"table": name, "classifier": classifier}
                    facts |= {"half": half, "size": size}
                    yield facts | {"classes": int(y.max()) + 1}, pairs


def outputs(cache, name, classifier, x, y, seed):
    """Probabilities and labels of rows that a classifier has not seen."""
    path = cache / f"{name}-{classifier}-{seed}.npz".replace(" ", "_")
    if not path.exists():
        order = np.random.default_rng(seed).permutation(len(y))
        first = [np.flatnonzero(y == c)[0] for c in range(y.max() + 1)]
        train = np.union1d(order[: min(len(y) // 2, 2000)], first)
        rest = np.setdiff1d(order, train)
        rest = np.random.default_rng(seed).permutation(rest)[:7000]
        model = make_pipeline(StandardScaler(), CLASSIFIERS[classifier]())
        p = model.fit(x[train], y[train]).predict_proba(x[rest])
        p = np.where(np.isfinite(p), p, 1 / p.shape[1])
        np.savez(path, p=p / p.sum(axis=1, keepdims=True), y=y[rest])
    with np.load(path) as file:
        return file["p"], file["y"]


def log_loss(p, y):
    p = np.clip(p, 1e-12, 1.0)
    p = p / p.sum(axis=1, keepdims=True)
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def score(method, pairs):
    """The mean log loss; `None` for methods that fail or do not fit."""
    try:
        found = [log_loss(method(*pair), pair[1]["y"]) for pair in pairs]
    except (ImportError, ValueError, IndexError):
        return None
    return np.mean(found)


def below_sms(runs, name):
    """Share of the runs with a lower loss than SMS, or `None`."""
    pairs = [(run["loss"][name], run["loss"]["SMS"]) for run in runs]
    lower = [a < b for a, b in pairs if None not in (a, b)]
    return np.mean(lower) if lower else None


def table(runs, half):
    """A Markdown table of one half of the tables."""
    runs = [run for run in runs if run["half"] == half]
    lines = ["| | mean log loss | below `none` | worst harm | below SMS | "]
    lines[0] += "2 classes | more | 50 rows | 200 | 1,000 |"
    lines.append("|---" * 10 + "|")
    names = list(runs[0]["loss"])
    for name in names:
        rows = [run for run in runs if run["loss"][name] is not None]
        if not rows:
            continue
        part = (
            "" if len(rows) == len(runs) else f" ({len(rows)} of {len(runs)})"
        )

        def mean(of, rows=rows):
            return np.mean([of(run["loss"]) for run in rows])

        def wins(fits, rows=rows, name=name):
            share = below_sms(filter(fits, rows), name)
            return "" if share is None or name == "SMS" else f"{share:.2f}"

        harm = max(run["loss"][name] - run["loss"]["none"] for run in rows)
        below = mean(lambda loss, n=name: loss[n] < loss["none"])
        cells = [f"{name}{part}", f"{mean(lambda loss, n=name: loss[n]):.4f}"]
        cells += [f"{below:.2f}", f"{harm:+.3f}", wins(lambda run: True)]
        cells += [wins(lambda run: run["classes"] == 2)]
        cells += [wins(lambda run: run["classes"] > 2)]
        cells += [wins(lambda run, s=s: run["size"] == s) for s in SIZES]
        lines.append("| " + " | ".join(cells) + " |")
    tables_of = {}
    for run in runs:
        loss = run["loss"]
        if loss["SMS"] is not None:
            gap = loss["AutoScaling"] - loss["SMS"]
            tables_of.setdefault(run["table"], []).append(gap)
    gaps = np.array([np.mean(gap) for gap in tables_of.values()])
    error = gaps.std(ddof=1) / np.sqrt(len(gaps))
    lines += ["", f"{len(runs)} experiments on {len(gaps)} tables. "]
    lines[-1] += f"`AutoScaling` - SMS: {gaps.mean():+.4f} ± {error:.4f}."
    return "\n".join(lines)


def figure(runs):
    """Share of the experiments that a method wins against SMS, by size."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.5, 3), layout="constrained")
    for name in ("AutoScaling", "temperature", "beta", "Venn-Abers"):
        shares = [below_sms(runs[size], name) for size in SIZES]
        axes.plot(range(len(SIZES)), shares, "o-", label=name)
    axes.axhline(0.5, color="0.6", linewidth=1)
    axes.set(ylim=(0, 1), ylabel="share below SMS", xlabel="calibration rows")
    axes.set_xticks(range(len(SIZES)), SIZES)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    figure.savefig(DOCS / "_static" / "arena.png", dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cache = pathlib.Path(tempfile.gettempdir()) / "arena"
    parser.add_argument("--cache", type=pathlib.Path, default=cache)
    parser.add_argument("--half", default="all")
    parser.add_argument("--methods", nargs="*", default=list(ARENA))
    parser.add_argument("--print", action="store_true")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if not arguments.print:
        arguments.cache.mkdir(exist_ok=True)
        folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"])
        old = json.loads(STORE.read_text()) if STORE.exists() else []
        keys = ("table", "classifier", "size")
        runs = {tuple(run[key] for key in keys): run for run in old}
        found = experiments(folder, arguments.cache, arguments.half)
        for facts, pairs in found:
            run = runs.setdefault(tuple(facts[key] for key in keys), facts)
            losses = {
                name: score(ARENA[name], pairs) for name in arguments.methods
            }
            run["loss"] = run.get("loss", {}) | {
                name: None if v is None else round(float(v), 5)
                for name, v in losses.items()
            }
        lines = ",\n".join(map(json.dumps, runs.values()))
        STORE.write_text(f"[{lines}]\n")
    runs = json.loads(STORE.read_text())
    for half in sorted({run["half"] for run in runs}):
        print(f"{half}\n\n{table(runs, half)}\n")
    report = [run for run in runs if run["half"] == "report"]
    figure({s: [r for r in report if r["size"] == s] for s in SIZES})


if __name__ == "__main__":
    main()
