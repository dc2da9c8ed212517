"""Facts about robust models, by study."""

import math
import statistics

from counting import (
    clearly_below,
    column,
    count_below,
    place_of,
    rank_correlation,
    told_difference,
)
from regressors_tables import MEASURES


def _classification(data, reported):
    found = {}
    for study in ("study1", "study2"):
        rows = data["tables"][study]["rows"]
        plain, ours = rows["logistic regression"], rows["predicted temperature"]
        every = data["each_seed"][study]
        found[study] = {
            "gain": ours[0] - plain[0],
            "worst_gain": ours[1] - plain[1],
            "change": told_difference(
                every["predicted temperature"],
                every["logistic regression"],
                digits=3,
            ),
        }
    return found


def _robust_regression(data, reported):
    rows = data["tables"]["errors"]["rows"]
    columns = data["tables"]["errors"]["columns"]
    kinds = [i for i, c in enumerate(columns) if c.startswith("error")]
    errors = {n: [row[i] for i in kinds] for n, row in rows.items()}
    speed = column(data["tables"]["errors"], "times faster than RANSAC")

    def over_ransac(name):
        pairs = zip(errors[name], errors["RANSAC"], strict=True)
        return [error / other for error, other in pairs]

    affine = "MPLS-XY, affine"
    return {
        "kinds": len(kinds),
        "over_ransac": over_ransac("MPLS-XY"),
        "affine": max(over_ransac(affine)) if affine in errors else None,
        "speed": speed["MPLS-XY"],
        "dpls": errors["DPLS"][0],
        "ols": errors["OLS"][0],
    }


def _pca(data, reported):
    rows = list(data["tables"]["angles"]["rows"].values())[1:]
    clean, *dirty = (
        (angles["PCA with learned scales"], angles["PCA"])
        for angles in data["each_set"].values()
    )
    return {
        "plain": min(row[0] for row in rows),
        "learned": max(row[2] for row in rows),
        "shares": len(dirty),
        "clear": sum(clearly_below(*pair) for pair in dirty),
        "price": told_difference(*clean, digits=2),
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
        "doubt": _doubt_of_vae(data, by_error[0]),
        "paper_error": paper[name][0],
        "time": times[name],
        "paper_time": paper[name][1],
        "data_time": max(times[n] for n in times if n.startswith("data")),
        "paper_data_time": paper["data HxWxC"][1],
        "memory": memory[name],
        "data_memory": memory["data HxWxC"],
    }


def _doubt_of_vae(data, best):
    """What the seeds say about the order of the rows."""
    if data["seeds"] < 5:
        return (
            f"The seeds of a single row differ by up to {data['spread']:.1f}, "
            f"so {data['seeds']} seeds do not settle the order of the rows."
        )
    errors = data["tables"]["each_seed"]["rows"]
    parts = []
    pairs = [
        ("predicted HxWxC", best),
        ("weighted HxWxC", best),
        ("weighted HxWxC", "normal, scale 1"),
    ]
    for name, other in pairs:
        change = told_difference(errors[name], errors[other], digits=1)
        parts.append(f"`{name}` less `{other}`: {change}")
    return (
        "Differences over the same seeds, with 95 % intervals of a paired "
        f"bootstrap: {'; '.join(parts)}."
    )


def _clear_sets(data, depth, place):
    """On how many sets seeds leave no doubt about a predicted scale.

    Keys are the rival and the side: `base_below` counts the sets on which the
    interval of the difference to `base` is below zero.
    """
    found = {}
    for key, rival in (("base", "base"), ("rmse", "base, rmse")):
        pairs = [
            [[seed[place] for seed in every[n]] for n in ("predicted", rival)]
            for every in data["each_seed"][depth].values()
        ]
        found[f"{key}_below"] = sum(clearly_below(a, b) for a, b in pairs)
        found[f"{key}_above"] = sum(clearly_below(b, a) for a, b in pairs)
    return found


def _worst_recalibrated(data):
    """How far recalibration can fail, in one sentence."""
    table = data["tables"]["deep_NLL"]
    values = column(table, "NLL ours, recalibrated")
    name = max(values, key=values.get)
    seeds = [
        seed[-1] for seed in data["each_seed"]["deep"][name]["recalibrated"]
    ]
    return (
        f"`recalibrated` is `ours` after recalibration. Its highest NLL is "
        f"{values[name]:.2f}, on `{name}`, where one split has "
        f"{max(seeds):.1f} and the median is {statistics.median(seeds):.2f}."
    )


def _regressors(data, reported):
    papers = {
        "deep": reported["table:robust-reg"],
        "linear": reported["table:robust-reg-linear"],
    }
    found = {"sets": data["deep"]["sets"], "above": 5}
    for depth, paper in papers.items():
        for place, measure in enumerate(MEASURES):
            table = data["tables"][f"{depth}_{measure}"]
            found[f"{depth}_{measure}"] = {
                "clear": _clear_sets(data, depth, place),
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
    found["recalibrated"] = _worst_recalibrated(data)
    linear = data["tables"]["linear_MSE"]
    found["kin_mse"] = column(linear, "MSE base").get("kin.", math.nan)
    found["paper_kin_mse"] = column(papers["linear"], "MSE Base")["kin."]
    found["paper_rank"] = rank_correlation(
        *(
            [
                value
                for paper in papers.values()
                for model in ("Base", "Temp")
                for value in column(paper, f"{measure} {model}").values()
            ]
            for measure in ("CAL", "MSE")
        )
    )
    nll = data["tables"]["deep_NLL"]
    for key, values in (
        ("predicted_above", column(nll, "NLL predicted")),
        ("ours_above", column(nll, "NLL ours")),
        ("paper_above", column(papers["deep"], "NLL Temp")),
    ):
        found[key] = sum(v > found["above"] for v in values.values())
    return found


STUDIES = {
    "robust_classification": _classification,
    "robust_regression": _robust_regression,
    "robust_pca": _pca,
    "vae": _vae,
    "regressors": _regressors,
}
