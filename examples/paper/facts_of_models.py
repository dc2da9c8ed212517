"""Facts about robust models, by study."""

import math

from counting import (
    column,
    count_below,
    paired_difference,
    place_of,
    rank_correlation,
)


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
        mean, low, high = paired_difference(errors[name], errors[other])
        parts.append(
            f"`{name}` less `{other}`: {mean:+.1f} ({low:+.1f} to {high:+.1f})"
        )
    return (
        "Differences over the same seeds, with 95 % intervals of a paired "
        f"bootstrap: {'; '.join(parts)}."
    )


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
