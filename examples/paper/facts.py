"""Numbers that the page tells and that follow from recorded results.

`facts(NAME, data, reported)` is what the words call `{{facts/...}}`, and what
the verdicts of `claims.py` rest on.
"""

import json
import statistics

from results import FOLDER

NAN = "not a number"


def facts(name: str, data: dict, reported: dict) -> dict:
    """Numbers that follow from the results of a study.

    Args:
        name: of the study.
        data: what the study recorded.
        reported: what the paper reports, by table.
    """
    return _STUDIES[name](data, reported) if name in _STUDIES else {}


def column(table: dict, name: str) -> dict:
    """A column of a table, by row."""
    place = table["columns"].index(name)
    return {row: values[place] for row, values in table["rows"].items()}


def count_below(table: dict, first: str, second: str) -> int:
    """In how many rows a column is below another."""
    pairs = zip(
        column(table, first).values(),
        column(table, second).values(),
        strict=True,
    )
    return sum(None not in pair and pair[0] < pair[1] for pair in pairs)


def place_of(values: dict, name: str) -> int:
    """The place of a name among values of which the least is best."""
    return 1 + sum(value < values[name] for value in values.values())


def _classification(data, reported):
    found = {}
    for study in ("study1", "study2"):
        rows = data["tables"][study]["rows"]
        plain, ours = rows["logistic regression"], rows["predicted temperature"]
        found[study] = {
            "gain": ours[0] - plain[0],
            "worst_gain": ours[1] - plain[1],
        }
    return found


def _robust_regression(data, reported):
    rows = data["tables"]["errors"]["rows"]
    columns = data["tables"]["errors"]["columns"]
    kinds = [i for i, c in enumerate(columns) if c.startswith("error")]
    errors = {n: [row[i] for i in kinds] for n, row in rows.items()}
    speed = column(data["tables"]["errors"], "times faster than RANSAC")
    over = zip(errors["MPLS-XY"], errors["RANSAC"], strict=True)
    return {
        "kinds": len(kinds),
        "over_ransac": [ours / theirs for ours, theirs in over],
        "speed": speed["MPLS-XY"],
        "dpls": errors["DPLS"][0],
        "ols": errors["OLS"][0],
    }


def _pca(data, reported):
    rows = list(data["tables"]["angles"]["rows"].values())[1:]
    return {
        "plain": min(row[0] for row in rows),
        "learned": max(row[2] for row in rows),
    }


def _vae(data, reported):
    paper = reported["tab:vae"]["rows"]
    errors = column(data["tables"]["errors"], "MSE")
    times = column(data["tables"]["errors"], "time")
    memory = column(data["tables"]["errors"], "memory, MB")
    ours = {name: errors[name] for name in paper if name in errors}
    by_error = sorted(ours, key=ours.get)
    name = "predicted HxWxC"
    return {
        "rows": len(ours),
        "place": place_of(ours, name),
        "paper_place": place_of({n: v[0] for n, v in paper.items()}, name),
        "last": by_error[-1],
        "error": ours[name],
        "weighted": errors["weighted HxWxC"],
        "normal": errors["normal, scale 1"],
        "gap": min(ours.values()) - errors["weighted HxWxC"],
        "paper_error": paper[name][0],
        "time": times[name],
        "paper_time": paper[name][1],
        "data_time": max(times[n] for n in times if n.startswith("data")),
        "paper_data_time": paper["data HxWxC"][1],
        "memory": memory[name],
        "data_memory": memory["data HxWxC"],
    }


def _regressors(data, reported):
    papers = {
        "deep": reported["table:robust-reg"],
        "linear": reported["table:robust-reg-linear"],
    }
    found = {"sets": data["deep"]["sets"], "above": 5}
    for depth, paper in papers.items():
        for measure in ("CAL", "NLL", "MSE"):
            table = data["tables"][f"{depth}_{measure}"]
            found[f"{depth}_{measure}"] = {
                "base": count_below(
                    table, f"{measure} predicted", f"{measure} base"
                ),
                "rmse": count_below(
                    table,
                    f"{measure} predicted",
                    f"{measure} base, sigma = RMSE",
                ),
                "paper": count_below(
                    paper, f"{measure} Temp", f"{measure} Base"
                ),
            }
    nll = data["tables"]["deep_NLL"]
    for key, values in (
        ("predicted_above", column(nll, "NLL predicted")),
        ("ours_above", column(nll, "NLL ours")),
        ("paper_above", column(papers["deep"], "NLL Temp")),
    ):
        found[key] = sum(v > found["above"] for v in values.values())
    return found


def _temperatures(data, reported):
    table = data["tables"]["aupr"]
    predicted = column(table, "predicted temperature")
    ahead = count_below(table, "data temperature", "predicted temperature")
    return {
        "kinds": len(predicted),
        "ahead": ahead,
        "data_label": column(table, "data temperature")["wrong label"],
        **{name.replace(" ", "_"): value for name, value in predicted.items()},
    }


def _outliers(data, reported):
    medians = column(data["tables"]["auc"], "median AUC")
    means = column(data["tables"]["auc"], "mean AUC")
    paper = column(reported["tab:outlier-det"], "median AUC")
    ours = [name for name in ("PCA+S", "AE+S") if name in medians]
    others = [v for name, v in medians.items() if name not in ours]
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
        n, p = (int(part.split("=")[1]) for part in name.split(","))
        numbers = case["numbers"]
        right &= numbers["global"] == p and numbers["data"] == n * p
        right &= numbers["predicted"] == p * (data["features"] + 1)
        for kind, found in times.items():
            found.append(case["seconds"][kind] / case["seconds"]["fixed"])
    return {
        "right": right,
        **{kind: statistics.median(found) for kind, found in times.items()},
    }


_STUDIES = {
    "robust_classification": _classification,
    "robust_regression": _robust_regression,
    "robust_pca": _pca,
    "vae": _vae,
    "regressors": _regressors,
    "temperatures": _temperatures,
    "temperatures_cifar10": _temperatures,
    "outliers_table": _outliers,
    "adaptive_regularization": _regularization,
    "recalibration_tables": _recalibration,
    "layer_width": _width,
    "softplus_offset": _softplus,
    "space_time": _space,
}
