"""Writes the tables of the pages on regularization from stored results.

    python benchmarks/regularization_page.py

To take in new results, name the files of JSON lines that the benchmarks write:

    python benchmarks/regularization_page.py --images images.jsonl \
        --linear linear.jsonl --networks mlp.jsonl --sparse errors.json

A set of `--linear`, or a network of `--images`, that is not in the file keeps
its stored results.
"""

import argparse
import json
import pathlib
import re

import numpy as np
import page_tables

RESULTS = page_tables.RESULTS / "adaptive_regularization_tables.json"
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


def image_table(found, in_full):
    """Accuracy and NLL by network: the best of the grid, or all methods."""
    rows = []
    for network, methods in found.items():
        nll = {name: np.mean(runs["nll"]) for name, runs in methods.items()}
        grid = [name for name in methods if name[0].isdigit()]
        chosen = min(grid, key=nll.get)
        order = [*sorted(grid, key=float), "AdamW", "Evidence", "HeldOut"]
        order = [name for name in order if name in methods]
        best = min(order, key=nll.get)
        for name in order if in_full else ("HeldOut", chosen):
            runs, text = methods[name], written(methods[name]["nll"], 3)
            label = f"L2 {float(name):g}" if name in grid else name
            rows.append(
                (
                    network,
                    label,
                    f"**{text}**" if name == best else text,
                    written(runs["accuracy"], 1, 100),
                    len(runs["nll"]),
                )
            )
    header = (
        "network",
        "regularization",
        "test NLL (lower is better)",
        "test accuracy, % (higher is better)",
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
    if "images" in results:
        made["images in full"] = image_table(results["images"], True)
    if "linear" in results:
        made["linear"] = linear_table(results["linear"])
    if "networks" in results:
        made["networks"] = network_table(results["networks"])
    if "sparse" in results:
        made["sparse"] = sparse_table(results["sparse"])
    return made


def take_images(lines):
    found = {}
    for line in lines:
        methods = found.setdefault(line["network"], {})
        runs = methods.setdefault(line["method"], {"nll": [], "accuracy": []})
        for key, values in runs.items():
            values.append(line[key])
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
    labels = {
        "HeldOut": "D-Ridge, HeldOut",
        "D-Ridge": "D-Ridge, Evidence",
        "grid": "L2 by grid",
        "AdamW": "AdamW",
    }
    for name in dict.fromkeys(line["set"] for line in lines):
        runs = [line for line in lines if line["set"] == name]
        found["rows"][name] = runs[0]["rows"]
        found["best"][name] = [run["best"] for run in runs]
        fixed = [key for key in runs[0] if key.startswith("80 %")]
        lowest = min(fixed, key=lambda k: np.mean([r[k]["nll"] for r in runs]))
        strength = lowest.removeprefix("80 %, ")
        columns = labels | {lowest: f"L2 {strength}, rows of HeldOut"}
        found["scores"][name] = {
            label: {
                kind: [round(run[key][kind], 4) for run in runs]
                for kind in ("nll", "error")
            }
            for key, label in columns.items()
        }
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
        "images": take_images,
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
                kept[key] = {**kept.get(key, {}), **value}
    if arguments["sparse"]:
        found = take_sparse(json.loads(arguments["sparse"].read_text()))
        results["sparse"] = {**results.get("sparse", {}), **found}
    RESULTS.write_text(as_text(results))
    page_tables.fill("studies/adaptive_regularization", tables(results))
    short = {"images": image_table(results["images"], False)}
    page_tables.fill("adaptive_regularization", short)


if __name__ == "__main__":
    main()
