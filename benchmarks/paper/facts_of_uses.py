"""Facts about what likelihood parameters are used for, by study."""

import itertools
import json
import math
import statistics

from counting import (
    SPLITS,
    clearly_below,
    column,
    count,
    count_below,
    format_difference,
    paired,
)
from results import FOLDER
from verdicts import LEAST_SEEDS

NAN = "not a number"


def _temperatures(data, reported, load):
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
    if data["seeds"] < LEAST_SEEDS:
        return (
            f"With {data['seeds']} of the {LEAST_SEEDS} seeds that an interval "
            "needs, a small difference says nothing."
        )
    parts = []
    for kind, found in data["each_seed"].items():
        predicted, learned, _ = zip(*found, strict=True)
        change = format_difference(predicted, learned, digits=2)
        parts.append(f"{kind} {change}")
    return (
        "Predicted minus data temperature, with 95 % intervals of a paired t "
        f"test over the seeds: {'; '.join(parts)}."
    )


def _outliers(data, reported, load):
    table = data["tables"]["sets"]
    medians = column(data["tables"]["auc"], "median AUC")
    paper = column(reported["tab:outlier-det"], "median AUC")
    ours = [name for name in ("PCA+S", "AE+S") if name in medians]
    rivals = [name for name in paper if name in medians and name not in ours]
    return {
        "medians": {name: medians[name] for name in ours},
        "paper": {name: paper[name] for name in ours},
        "others": max((medians[name] for name in rivals), default=0.0),
        "best_other": max(rivals, key=medians.get, default="none"),
        "more": max(v for k, v in medians.items() if k not in ours),
        "literal": _literal_outliers(load("literal_outliers"), table, rivals),
    }


def _literal_outliers(data, table, rivals):
    """Medians and mean ranks among the paper's other detectors."""
    auc = data["tables"]["auc"]
    names = auc["columns"]
    scores = {name: column(table, name) for name in rivals}
    scores |= {name: column(auc, name) for name in names}
    sets = [key for key in auc["rows"] if key in table["rows"]]
    matrix = [[row[key] for key in sets] for row in scores.values()]
    ranks, _, least = paired.mean_ranks(matrix)
    ranks = dict(zip(scores, map(float, ranks), strict=True))
    return {
        "medians": data["medians"],
        "sets": data["sets"],
        "seeds": data["seeds"],
        "ranks": {name: ranks[name] for name in names},
        "first": min(ranks, key=ranks.get),
        "best_rank": min(ranks.values()),
        "least": least,
        "methods": len(ranks),
    }


def _regularization(data, reported, load):
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
        "multi_told": _multi_lasso(data, gains, over, names),
        "larger": beside["paper_size"],
        "cells": len(cells),
        "cells_seeds": beside["seeds"],
        "cells_mean": statistics.mean(cells),
        "cells_worst": max(cells),
        "literal": _literal_regularization(load("sparse_weights")),
    }


L1_RIVALS = ("LassoCV", "LassoLarsCV", "adaptive LASSO")


def _literal_regularization(data):
    """Errors of the paper's objective over those of its rivals."""
    lasso = data["tables"]["lasso"]["rows"]
    ridge = data["tables"]["ridge"]["rows"]

    def over(rows, name, rival):
        pairs = zip(rows[name], rows[rival], strict=True)
        return [ours / other for ours, other in pairs]

    best, _ = data["known"]
    found = {"cells": len(data["tables"]["lasso"]["columns"])}
    for title in ("joint", "ours"):
        multi = lasso[f"Multi-LASSO, {title}"]
        rivals = [*L1_RIVALS, f"D-LASSO, {title}"]
        least = [min(v) for v in zip(*map(lasso.get, rivals), strict=True)]
        gains = [b / a for a, b in zip(multi, least, strict=True)]
        loose = [
            min(pair) / one
            for one, *pair in zip(
                multi,
                lasso["LassoCV"],
                lasso["D-LASSO, joint"],
                strict=True,
            )
        ]
        found[title] = {
            "lasso": over(lasso, f"D-LASSO, {title}", best),
            "ridge": over(ridge, f"D-Ridge, {title}", best),
            "gains": gains,
            "tenfold": sum(gain >= 10 for gain in gains),
            "loose_tenfold": sum(gain >= 10 for gain in loose),
        }
    found["ridge_cv"] = max(over(ridge, "RidgeCV", best))
    return found


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
        change = format_difference(
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
        "paired t test over the draws show that it is ahead of each other "
        "method."
    )


def _recalibration(data, reported, load):
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
        "ece_below_gs": {
            name: {
                "ours": count_below(ece, name, "GS"),
                "paper": count_below(paper, name, "GS"),
                "networks": sum(
                    v is not None for v in column(ece, name).values()
                ),
            }
            for name in ("LS", "LFS")
        },
        "paper_classifiers": len(paper["rows"]),
        "ours": _counts_of_regressors(data["tables"]["cal"]),
        "paper": _counts_of_regressors(regressors),
        "seconds": _seconds_of_classifiers(),
        "literal": _literal_recalibration(load("literal_recalibration")),
        "classifiers": _literal_classifiers(load("literal_classifiers")),
    }


def _counts_of_regressors(table):
    """On how many sets a method has the lower CAL than another."""
    return {
        "Isotonic": {
            name: count_below(table, name, "Isotonic")
            for name in ("GS", "LS", "DS")
        },
        "GS": {name: count_below(table, name, "GS") for name in ("LS", "DS")},
    }


def _seconds_of_classifiers():
    """Processor time of `LinearScaling` over that of `GlobalScaling`."""
    path = FOLDER.parent / "results" / "recalibration.json"
    ratios = [
        found["LinearScaling"]["processor_seconds"]
        / found["GlobalScaling"]["processor_seconds"]
        for found in json.loads(path.read_text())["report"].values()
    ]
    return statistics.median(ratios)


def _literal_recalibration(data):
    found = {"sets": data["sets"], "seeds": data["seeds"]}
    for rival in ("Isotonic", "GS"):
        found[rival] = {
            name: count(
                [
                    [[seed[0] for seed in every[n]] for n in (name, rival)]
                    for every in data["each_seed"].values()
                ],
                overlap=SPLITS,
            )
            for name in ("GS", "LS", "DS")
            if name != rival
        }
    found["seconds"] = {
        name: statistics.median(
            seconds[name] / seconds["GS"]
            for seconds in data["seconds"].values()
        )
        for name in ("LS", "DS")
    }
    return found


def _literal_classifiers(data):
    """On how many networks LS and LFS have a lower ECE and NLL than GS."""
    return {
        measure: {
            name: count_below(data["tables"][measure], name, "GS")
            for name in ("LS", "LFS")
        }
        for measure in ("ece", "nll")
    }


def _width(data, reported, load):
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
        "widest": format_difference(every[-1], every[0], digits=2),
    }


def _softplus(data, reported, load):
    table = data["tables"]["nll"]
    failed = {
        name: sum(NAN in str(cell) for cell in row)
        for name, row in table["rows"].items()
    }
    return {
        "runs": len(table["columns"]),
        "exp": failed["exp"],
        "no_offset": failed["softplus, s = 0"],
        "offset": sum(
            failed[name]
            for name in failed
            if name not in ("exp", "softplus, s = 0")
        ),
        "literal": _normalised(load("normalised_features")),
    }


def _normalised(data):
    """What normalisation changes, each at its best step size."""
    best = {}
    for name, by_rate in data["each_seed"].items():
        finite = {
            rate: values
            for rate, values in by_rate.items()
            if all(math.isfinite(value) for value in values)
        }
        rate = min(finite, key=lambda rate: statistics.mean(finite[rate]))
        best[name] = rate, finite[rate]
    found = {"seeds": data["seeds"]}
    for key, units in (("plain", "as they are"), ("other", "in other units")):
        rows = {n.split(": ")[1]: v for n, v in best.items() if units in n}
        _, none = rows.pop("none")
        name = min(rows, key=lambda n: statistics.mean(rows[n][1]))
        found[key] = {
            "none": statistics.mean(none),
            "kind": name,
            "normalised": statistics.mean(rows[name][1]),
            "clear": clearly_below(rows[name][1], none),
            "worse": clearly_below(none, rows[name][1]),
            "change": format_difference(rows[name][1], none, digits=3),
        }
    return found


def _space(data, reported, load):
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
    cases = list(zip(*times.values(), strict=True))
    return {
        "right": right,
        "cases": len(cases),
        "ordered": sum(list(case) == sorted(case) for case in cases),
        "largest": max(map(max, cases)),
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
