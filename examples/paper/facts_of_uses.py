"""Facts about what likelihood parameters are used for, by study."""

import json
import math
import statistics

from counting import column, count_below
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
        "data_label": column(table, "data temperature")["wrong label"],
        **{
            name.replace(" ", "_"): predicted.get(name, math.nan)
            for name in ("wrong label", "noise", "two images")
        },
    }


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
        (FOLDER.parent / "adaptive_regularization.json").read_text()
    )
    place = beside["columns"].index("D-LASSO")
    cells = [row[place][0] for row in beside["rows"].values()]
    panels = column(data["tables"]["panels"], "over the best fixed strength")
    rows = data["tables"]["shares"]["rows"]
    rivals = [rows[n] for n in ("LassoCV", "ARDRegression", "D-LASSO")]
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
    return {"rising": test == sorted(test)}


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
