"""Facts about what likelihood parameters are used for, by study."""

import itertools
import json
import math
import statistics

from counting import clearly_below, column, count_below, told_difference
from results import FOLDER

NAN = "not a number"

_OUR_OTHERS = (
    *("Auto", "Auto without its deep part"),
    "AutoencoderScale, reconstruction error",
)
"""Rows of this package that the paper does not have."""


def _temperatures(data, reported):
    table = data["tables"]["aupr"]
    predicted = column(table, "predicted temperature")
    ahead = count_below(table, "data temperature", "predicted temperature")
    return {
        "kinds": len(predicted),
        "ahead": ahead,
        "doubt": _doubt_of_temperatures(data),
        "data_label": column(table, "data temperature")["wrong label"],
        **{
            name.replace(" ", "_"): predicted.get(name, math.nan)
            for name in ("wrong label", "noise", "two images")
        },
    }


def _doubt_of_temperatures(data):
    """What the seeds say about predicted and data temperatures."""
    if data["seeds"] < 5:
        return (
            f"With {data['seeds']} of the 5 seeds that an interval needs, a "
            "small difference says nothing."
        )
    parts = []
    for kind, found in data["each_seed"].items():
        predicted, learned, _ = zip(*found, strict=True)
        change = told_difference(predicted, learned, digits=2)
        parts.append(f"{kind} {change}")
    return (
        "Predicted less data temperature, with 95 % intervals of a paired "
        f"bootstrap over the seeds: {'; '.join(parts)}."
    )


def _outliers(data, reported):
    medians = column(data["tables"]["auc"], "median AUC")
    means = column(data["tables"]["auc"], "mean AUC")
    paper = column(reported["tab:outlier-det"], "median AUC")
    ours = [name for name in ("PCA+S", "AE+S") if name in medians]
    others = [v for k, v in medians.items() if k not in (*ours, *_OUR_OTHERS)]
    return {
        "medians": {name: medians[name] for name in ours},
        "means": {name: means[name] for name in ours},
        "paper": {name: paper[name] for name in ours},
        "others": max(others),
        "ahead": all(medians[name] > max(others) for name in ours),
    }


def _regularization(data, reported):
    beside = json.loads(
        (FOLDER.parent / "results" / "adaptive_regularization.json").read_text()
    )
    place = beside["columns"].index("D-LASSO")
    cells = [row[place][0] for row in beside["rows"].values()]
    panels = column(data["tables"]["panels"], "over the best fixed strength")
    rows = data["tables"]["shares"]["rows"]
    names = ("LassoCV", "ARDRegression", "D-LASSO")
    rivals = [rows[name] for name in names]
    gains = [
        min(others) / ours
        for ours, *others in zip(rows["Multi-LASSO"], *rivals, strict=True)
    ]
    over = [
        ours / truth
        for ours, truth in zip(
            rows["Multi-LASSO"], rows["true support"], strict=True
        )
    ]
    return {
        "ridge": panels["L2: D-Ridge"],
        "ridge_cv": panels["L2: CV"],
        "lasso": panels["L1: D-LASSO"],
        "lasso_cv": panels["L1: CV"],
        "multi": panels["L1: Multi-LASSO"],
        "shares": len(gains),
        "ahead": sum(gain > 1 for gain in gains),
        "multi_told": _multi_lasso(data, gains, over, names),
        "least_gain": min(gains),
        "most_gain": max(gains),
        "most_over_truth": max(over),
        "joint": beside["paper_size"]["D-LASSO, joint"],
        "larger": beside["paper_size"],
        "cells": len(cells),
        "cells_seeds": beside["seeds"],
        "cells_mean": statistics.mean(cells),
        "cells_worst": max(cells),
    }


def _multi_lasso(data, gains, over, rivals):
    """Where Multi-LASSO is ahead, by how much, and what the draws say."""
    shares = data["tables"]["shares"]["columns"]
    ahead = [i for i, gain in enumerate(gains) if gain > 1]
    behind = [i for i in range(len(gains)) if i not in ahead]
    told = f"Multi-LASSO is ahead for {len(ahead)} of {len(gains)} shares"
    if ahead:
        factors = [gains[i] for i in ahead]
        told += (
            f", by factors of {min(factors):.1f} to {max(factors):.1f}; there "
            f"its error is at most {max(over[i] for i in ahead):.1f} times "
            "that of `true support`"
        )
    every = {
        name: list(zip(*seeds, strict=True))
        for name, seeds in data["each_seed"]["shares"].items()
    }
    rows = data["tables"]["shares"]["rows"]
    for i in behind:
        best = min(rivals, key=lambda name: rows[name][i])
        change = told_difference(
            every["Multi-LASSO"][i], every[best][i], digits=2
        )
        told += (
            f". With {shares[i]}, {best} has {gains[i]:.2f} times its error; "
            f"the difference to it is {change}"
        )
    clear = sum(
        all(
            clearly_below(every["Multi-LASSO"][i], every[name][i])
            for name in rivals
        )
        for i in ahead
    )
    return (
        f"{told}. For {clear} of {len(gains)} shares the 95 % intervals of a "
        "paired bootstrap over the draws show that it is ahead of each other "
        "method."
    )


def _recalibration(data, reported):
    paper = reported["tab:class-calibration"]
    regressors = reported["tab:reg-calibration"]
    ece = data["tables"]["ece"]
    differences = zip(
        column(ece, "LS").values(),
        column(ece, "GS").values(),
        column(ece, "perfect model").values(),
        strict=True,
    )
    return {
        "ece_noise": sum(abs(ls - gs) < noise for ls, gs, noise in differences),
        "ece_ls": count_below(ece, "LS", "GS"),
        "paper_ece_ls": count_below(paper, "LS", "GS"),
        "paper_classifiers": len(paper["rows"]),
        "below_isotonic": {
            name: count_below(data["tables"]["cal"], name, "Isotonic")
            for name in ("GS", "LS", "DS")
        },
        "paper_below_isotonic": {
            name: count_below(regressors, name, "Isotonic")
            for name in ("GS", "LS", "DS")
        },
    }


def _width(data, reported):
    test = list(column(data["tables"]["cal"], "CAL, test").values())
    place = data["tables"]["cal"]["columns"].index("CAL, test")
    widths = list(data["each_seed"].values())
    every = [[seed[place] for seed in seeds] for seeds in widths]
    doublings = list(itertools.pairwise(every))
    return {
        "rising": test == sorted(test),
        "doublings": len(doublings),
        "clear": sum(clearly_below(a, b) for a, b in doublings),
        "under": sum(seed[-2] > 0.9 for seed in widths[-1]),
        "widest": told_difference(every[-1], every[0], digits=2),
    }


def _softplus(data, reported):
    table = data["tables"]["nll"]
    failed = {
        name: sum(NAN in str(cell) for cell in row)
        for name, row in table["rows"].items()
    }
    best = "softplus, s = 0.2"
    return {
        "runs": len(table["columns"]),
        "exp": failed["exp"],
        "no_offset": failed["softplus, s = 0"],
        "offset": sum(
            failed[name]
            for name in failed
            if name not in ("exp", "softplus, s = 0")
        ),
        "raw": _last(column(table, "step 1e-3").get(best)),
        "normalised": _last(column(table, "step 1e-3, normalised").get(best)),
    }


def _last(text):
    """The last NLL of a run, from `2.70 (worst 2.93)`."""
    text = str(text)
    return float("nan") if NAN in text else float(text.split()[0])


def _space(data, reported):
    right, times = True, {"global": [], "data": [], "predicted": []}
    for name, case in data["cases"].items():
        n, p = (
            int(part.split("=")[1].replace(",", ""))
            for part in name.split(", ")
        )
        numbers = case["numbers"]
        right &= numbers["global"] == p and numbers["data"] == n * p
        right &= numbers["predicted"] == p * (data["features"] + 1)
        for kind, found in times.items():
            found.append(case["seconds"][kind] / case["seconds"]["fixed"])
    return {
        "right": right,
        **{kind: statistics.median(found) for kind, found in times.items()},
    }


STUDIES = {
    "temperatures": _temperatures,
    "temperatures_cifar10": _temperatures,
    "outliers_table": _outliers,
    "adaptive_regularization": _regularization,
    "recalibration_tables": _recalibration,
    "layer_width": _width,
    "softplus_offset": _softplus,
    "space_time": _space,
}
