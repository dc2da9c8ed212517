"""Writes the tables of docs/adaptive_regularization.md from its results.

    python benchmarks/regularization_page.py

To take in new results, name the files of JSON lines that the benchmarks write:

    python benchmarks/regularization_page.py --deep deep.jsonl \
        --linear linear.jsonl --networks mlp.jsonl --sparse errors.json

A set of `--linear`, or a method of `--deep`, that is not in the file keeps its
stored results.
"""

import argparse
import json
import pathlib
import re

import numpy as np
import page_tables

RESULTS = page_tables.DOCS / "adaptive_regularization_tables.json"
PAIRS = (
    ("DRidge", ("RidgeCV", "BayesianRidge", "LogisticRegressionCV")),
    ("DLasso", ("LassoCV",)),
    ("MultiLasso", ("ARD",)),
)
# What the error is divided by: the best L1 strength, or the true support.
SPARSE = {
    "LassoCV": "oracle",
    "DLasso, NormalLoss": "oracle",
    "DLasso, joint": "oracle",
    "MultiLasso, NormalLoss": "support",
    "MultiLasso, joint": "support",
}


def mean_and_error(values):
    """Mean and standard error, which one value does not have."""
    values = np.asarray(values, "float64")
    if len(values) == 1:
        return values[0], None
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def written(values, digits, factor=1.0):
    mean, error = mean_and_error(np.asarray(values) * factor)
    text = f"{mean:.{digits}f}"
    return text if error is None else f"{text} ± {error:.{digits}f}"


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def ratio(ours, rival):
    """Ratio of the means, with its standard error over paired runs."""
    ours, rival = np.asarray(ours), np.asarray(rival)
    found = ours.mean() / rival.mean()
    apart = ours - found * rival
    return found, apart.std(ddof=1) / np.sqrt(len(apart)) / rival.mean()


def deep_table(found):
    """One row for each method, the best accuracy and NLL in bold."""
    runs = found["runs"]
    grid = sorted(
        (name for name in runs if name.startswith("L2")),
        key=lambda name: float(name.split()[1]),
    )
    order = ["plain", "AdamW", *grid, "D-Ridge"]
    order = [name for name in order if name in runs]
    best = {
        key: pick(order, key=lambda n: np.mean(runs[n][key]))
        for key, pick in (("accuracy", max), ("nll", min))
    }
    labels = {
        "plain": "none",
        "AdamW": "AdamW at its default",
        "D-Ridge": "D-Ridge on every kernel",
    }

    def cell(name, key, digits, factor=1.0):
        text = written(runs[name][key], digits, factor)
        return f"**{text}**" if best[key] == name else text

    rows = [
        (
            labels.get(name) or f"weight decay {name.split()[1]}",
            cell(name, "accuracy", 2, 100),
            cell(name, "nll", 3),
            len(runs[name]["nll"]),
        )
        for name in order
    ]
    header = (
        "regularization",
        "test accuracy, % (higher is better)",
        "test NLL (lower is better)",
        "seeds",
    )
    return markdown(header, rows)


def linear_ratios(found):
    """`{set: {our method: (ratio, standard error)}}`."""
    ratios = {}
    for name, errors in found["errors"].items():
        ratios[name] = {}
        for ours, rivals in PAIRS:
            known = [r for r in rivals if r in errors]
            if ours in errors and known:
                rival = min(known, key=lambda r: np.mean(errors[r]))
                ratios[name][ours] = ratio(errors[ours], errors[rival])
    return ratios


def linear_table(found):
    rows = []
    for name, by_method in linear_ratios(found).items():
        cells = [
            "{:.2f} ± {:.2f}".format(*by_method[ours])
            if ours in by_method
            else ""
            for ours, _ in PAIRS
        ]
        rows.append((name, found["rows"][name], *cells))
    header = (
        "table",
        "training rows",
        "D-Ridge",
        "D-LASSO / LassoCV",
        "Multi-LASSO / ARD",
    )
    return markdown(header, rows)


def network_table(found):
    rows = []
    for name, methods in found["scores"].items():
        best = min(methods, key=lambda m: np.mean(methods[m]["nll"]))
        for method, scores in methods.items():
            nll = written(scores["nll"], 3)
            rows.append(
                (
                    name,
                    method,
                    f"**{nll}**" if method == best else nll,
                    written(scores["error"], 3),
                )
            )
    header = (
        "table",
        "regularization",
        "test NLL (lower is better)",
        "test error (lower is better)",
    )
    return markdown(header, rows)


def sparse_table(found):
    """Ratios of errors by the share of weights that are not zero."""
    rows = [
        (f"{float(share):.0%}", *(written(by_method[m], 2) for m in SPARSE))
        for share, by_method in sorted(found.items())
    ]
    header = (
        "weights not zero",
        "`LassoCV`",
        "D-LASSO",
        "joint D-LASSO",
        "Multi-LASSO",
        "joint Multi-LASSO",
    )
    return markdown(header, rows)


def tables(results) -> dict:
    """The tables of the page, by name."""
    made = {}
    for size, found in results.get("deep", {}).items():
        made[f"deep {size}"] = deep_table(found)
    if "linear" in results:
        made["linear"] = linear_table(results["linear"])
    if "networks" in results:
        made["networks"] = network_table(results["networks"])
    if "sparse" in results:
        made["sparse"] = sparse_table(results["sparse"])
    return made


def take_deep(lines):
    found = {}
    for line in lines:
        size = found.setdefault(
            str(line["size"]), {"epochs": line["epochs"], "runs": {}}
        )
        run = size["runs"].setdefault(
            line["method"], {"seeds": [], "accuracy": [], "nll": []}
        )
        run["seeds"].append(line["seed"])
        run["accuracy"].append(round(line["accuracy"], 4))
        run["nll"].append(round(line["nll"], 4))
    return found


def take_linear(lines):
    found = {"rows": {}, "errors": {}}
    for line in lines:
        name, _ = line.pop("set"), line.pop("seed")
        found["rows"][name] = line.pop("rows")
        errors = found["errors"].setdefault(name, {})
        for method, value in line.items():
            errors.setdefault(method, []).append(round(value, 5))
    return found


def take_networks(lines):
    found = {"rows": {}, "best": {}, "scores": {}}
    labels = {"D-Ridge": "D-Ridge", "grid": "L2 by grid", "AdamW": "AdamW"}
    for line in lines:
        name = line["set"]
        found["rows"][name] = line["rows"]
        found["best"].setdefault(name, []).append(line["best"])
        methods = found["scores"].setdefault(name, {})
        for key, label in labels.items():
            scores = methods.setdefault(label, {"nll": [], "error": []})
            for kind, values in scores.items():
                values.append(round(line[key][kind], 4))
    return found


def take_sparse(found):
    return {
        share: {
            method: [
                round(seed["methods"][method][0] / seed[reference], 3)
                for seed in seeds.values()
            ]
            for method, reference in SPARSE.items()
        }
        for share, seeds in found.items()
    }


def read_lines(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(lines, key=lambda line: line["seed"])


def as_text(results):
    """JSON with each list of numbers in one line."""
    text = json.dumps(results, indent=1)
    lists = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")
    return lists.sub(lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    readers = {
        "deep": take_deep,
        "linear": take_linear,
        "networks": take_networks,
    }
    for name in (*readers, "sparse"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    arguments = vars(parser.parse_args())
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, take in readers.items():
        if arguments[name]:
            found = take(read_lines(arguments[name]))
            kept = results.setdefault(name, {})
            for key, value in found.items():
                stored = kept.get(key, {})
                if name == "deep":
                    value["runs"] = {**stored.get("runs", {}), **value["runs"]}
                kept[key] = {**stored, **value}
    if arguments["sparse"]:
        found = take_sparse(json.loads(arguments["sparse"].read_text()))
        results["sparse"] = {**results.get("sparse", {}), **found}
    RESULTS.write_text(as_text(results))
    page_tables.fill("adaptive_regularization", tables(results))


if __name__ == "__main__":
    main()
