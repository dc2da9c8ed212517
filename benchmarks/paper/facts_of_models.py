"""Facts about robust models, by study."""

import math
import statistics

from counting import (
    SPLITS,
    clearly_below,
    column,
    count,
    count_below,
    difference,
    format_difference,
    place_of,
    rank_correlation,
)

LARGE_X = ("large x, spread", "large x, one cluster")


def _classification(data, reported, load):
    found = {}
    for study in ("study1", "study2"):
        rows = data["tables"][study]["rows"]
        plain, ours = rows["logistic regression"], rows["predicted temperature"]
        every = data["each_seed"][study]
        pair = every["predicted temperature"], every["logistic regression"]
        found[study] = {
            "gain": ours[0] - plain[0],
            "worst_gain": ours[1] - plain[1],
            "clear": clearly_below(*reversed(pair)),
            "change": format_difference(*pair, digits=3),
        }
    return found


def _robust_regression(data, reported, load):
    rows = data["tables"]["errors"]["rows"]
    columns = data["tables"]["errors"]["columns"]
    kinds = [i for i, c in enumerate(columns) if c.startswith("error")]
    errors = {n: [row[i] for i in kinds] for n, row in rows.items()}
    speed = column(data["tables"]["errors"], "times faster than RANSAC")

    def over_ransac(name):
        pairs = zip(errors[name], errors["RANSAC"], strict=True)
        ratios = [error / other for error, other in pairs]
        level = sum(ratio <= 1.1 for ratio in ratios)
        return {"level": level, "worst": max(ratios), "speed": speed[name]}

    literal = [errors["DPLS, paper"][i] for i in range(len(LARGE_X))]
    plain = [errors["OLS"][i] for i in range(len(LARGE_X))]
    return {
        "kinds": len(kinds),
        "literal": over_ransac("MPLS-XY, paper"),
        "ours": over_ransac("MPLS-XY"),
        "seconds": rows["MPLS-XY, paper"][columns.index("ms")] / 1e3,
        "dpls": literal,
        "dpls_over_ols": [a / b for a, b in zip(literal, plain, strict=True)],
        "dpls_ours": errors["DPLS"][: len(LARGE_X)],
        "ols": plain,
    }


def _pca(data, reported, load):
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
        "price": format_difference(*clean, digits=2),
    }


def _vae(data, reported, load):
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
        "literal": _literal_vae(
            load("literal_vae"), paper, reported["numbers"]["vae_ranges"]
        ),
    }


def _literal_vae(data, paper, paper_ranges):
    """Errors, and whether a way of learning ends in the paper's ranges."""
    errors = column(data["tables"]["errors"], "MSE")
    name = "predicted HxWxC"
    ours = {row: errors[row] for row in paper}
    return {
        "error": errors[name],
        "isolated": errors["isolated HxWxC"],
        "global": errors["global HxWxC"],
        "place": place_of(ours, name),
        "best": min(ours, key=ours.get),
        "ranges": data["ranges"],
        "inside": any(
            all(
                least <= low and high <= most
                for (low, high), (least, most) in zip(
                    found, paper_ranges, strict=True
                )
            )
            for found in data["ranges"].values()
        ),
        "change": format_difference(
            data["each_seed"][name], data["each_seed"]["global HxWxC"], digits=1
        ),
    }


def _doubt_of_vae(data, best):
    """What the seeds say about the order of the rows."""
    if data["seeds"] < 5:
        return (
            f"The seeds of a single row differ by up to {data['spread']:.1f}, "
            f"so {data['seeds']} seeds do not decide the order of the rows."
        )
    errors = data["tables"]["each_seed"]["rows"]
    parts = []
    pairs = [
        ("predicted HxWxC", best),
        ("weighted HxWxC", best),
        ("weighted HxWxC", "normal, scale 1"),
    ]
    for name, other in pairs:
        change = format_difference(errors[name], errors[other], digits=1)
        parts.append(f"`{name}` minus `{other}`: {change}")
    return (
        "Differences over the same seeds, with 95 % intervals of a paired t "
        f"test: {'; '.join(parts)}."
    )


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


DEPTHS = {"deep": "table:robust-reg", "linear": "table:robust-reg-linear"}
PAPER_NAMES = {"CAL": "CAL", "gap": "MSE", "NLL": "NLL"}
"""Our measures and the paper's columns; its "MSE" looks like the gap."""


def counts_of(data, depth, measure, model, base="base"):
    """On how many sets a model is below its base, and clearly so."""
    place = data["measures"].index(measure)
    pairs = [
        [[seed[place] for seed in every[name]] for name in (model, base)]
        for every in data["each_seed"][depth].values()
    ]
    return count(pairs, overlap=SPLITS)


def _more_for_linear(data, place, base):
    """Gain of linear less that of deep models, in log CAL over the sets."""
    gains = [
        [
            _log_ratio(
                *(
                    statistics.mean(seed[place] for seed in every[name])
                    for name in (base, "predicted")
                )
            )
            for every in data["each_seed"][depth].values()
        ]
        for depth in ("linear", "deep")
    ]
    return difference(*gains)


def _literal_regressors(data):
    """Counts by depth and measure, and how much linear models gain."""
    found = {
        f"{depth}_{measure}": counts_of(data, depth, measure, "predicted")
        for depth in DEPTHS
        for measure in data["measures"]
    }
    place = data["measures"].index("CAL")
    return found | {"more": _more_for_linear(data, place, "base")}


def _log_ratio(first, second):
    # The paper prints three digits, so that 0.000 is less than 0.0005.
    return math.log(max(first, 5e-4) / max(second, 5e-4))


def _paper_regressors(reported):
    """What follows from the paper's own tables."""
    papers = {depth: reported[table] for depth, table in DEPTHS.items()}
    found = {
        f"{depth}_{ours}": count_below(
            paper, f"{theirs} Temp", f"{theirs} Base"
        )
        for depth, paper in papers.items()
        for ours, theirs in PAPER_NAMES.items()
    }
    cal, mse = (
        [
            value
            for paper in papers.values()
            for model in ("Base", "Temp")
            for value in column(paper, f"{measure} {model}").values()
        ]
        for measure in ("CAL", "MSE")
    )
    kept = [
        (math.log(a), math.log(b)) for a, b in zip(cal, mse, strict=True) if a
    ]
    ratios = [b - a / 2 for a, b in kept]
    gains = [
        [
            _log_ratio(*pair)
            for pair in zip(
                column(papers[depth], "CAL Base").values(),
                column(papers[depth], "CAL Temp").values(),
                strict=True,
            )
        ]
        for depth in ("linear", "deep")
    ]
    nll = [column(paper, "NLL Base").values() for paper in papers.values()]
    return found | {
        "rank": rank_correlation(cal, mse),
        "correlation": statistics.correlation(*zip(*kept, strict=True)),
        "ratio": math.exp(statistics.median(ratios)),
        "more": difference(*gains),
        "least_nll": min(min(values) for values in nll),
        "kin_mse": column(papers["linear"], "MSE Base")["kin."],
    }


def _regressors(data, reported, load):
    found = {"sets": data["deep"]["sets"], "above": 5}
    found["paper"] = _paper_regressors(reported)
    old = {**data, "measures": ["CAL", "MSE", "NLL"]}
    for rival, name in (("one", "base"), ("rmse", "base, rmse")):
        found[rival] = {
            f"{depth}_{measure}": counts_of(
                old, depth, measure, "predicted", name
            )
            for depth in DEPTHS
            for measure in old["measures"]
        }
    found["rmse"]["more"] = _more_for_linear(data, 0, "base, rmse")
    literal = load("literal_regressors")
    found["literal"] = _literal_regressors(literal)
    found["literal_seeds"] = literal["seeds"]
    found["recalibrated"] = _worst_recalibrated(data)
    linear = data["tables"]["linear_MSE"]
    found["kin_mse"] = column(linear, "MSE base").get("kin.", math.nan)
    nll = data["tables"]["deep_NLL"]
    paper = reported["table:robust-reg"]
    for key, values in (
        ("predicted_above", column(nll, "NLL predicted")),
        ("ours_above", column(nll, "NLL ours")),
        ("paper_above", column(paper, "NLL Temp")),
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
