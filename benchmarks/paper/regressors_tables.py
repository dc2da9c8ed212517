"""Tables of the linear and deep regressors, from single runs."""

import itertools

import numpy as np
from results import mean_and_error

DEPTHS = ("linear", "deep")
MEASURES = ("CAL", "MSE", "NLL")
"""Of a run's scores, in this order."""


def choose(held_out, names):
    """The candidate of the best mean rank over sets, depths and seeds."""
    values = np.array([[run[k] for k in names] for run in held_out])
    ranks = values.argsort(axis=1).argsort(axis=1).mean(axis=0) + 1
    return names[ranks.argmin()], dict(zip(names, ranks, strict=True))


COLUMNS = {
    "base": "base",
    "base, rmse": "base, sigma = RMSE",
    "predicted": "predicted",
    "beta": "beta-NLL",
    "faithful": "faithful",
    "stopped: constant": "constant, stopped",
    "stopped: normal": "predicted, stopped",
    "ours": "ours",
    "recalibrated": "ours, recalibrated",
}


def tables_of(scores, depth, paper):
    """One table for each of CAL, MSE and NLL: means over seeds."""
    made = {}
    for place, measure in enumerate(MEASURES):
        found = {
            name: np.stack([one[m][:, place] for m in COLUMNS], axis=1)
            for name, one in scores.items()
        }
        made[f"{depth}_{measure}"] = {
            "columns": [f"{measure} {c}" for c in COLUMNS.values()],
            **mean_and_error(found),
            "paper": paper,
            "paper_columns": [f"{measure} Base", f"{measure} Temp"],
            "only_ours": True,
        }
    return made


def summary(scores):
    """On how many sets each column is best, and the worst values of ours."""
    counts = {"sets": len(scores)}
    for place, measure in enumerate(MEASURES):
        values = np.array(
            [
                [found[m][:, place].mean() for m in COLUMNS]
                for found in scores.values()
            ]
        )
        least = values == values.min(axis=1, keepdims=True)
        wins = dict(zip(COLUMNS, least.sum(axis=0).tolist(), strict=True))
        counts[f"{measure}_best"] = wins
        for ours in ("ours", "recalibrated"):
            mine = values[:, list(COLUMNS).index(ours)]
            counts[f"{measure}_{ours}_worst"] = mine.max()
    return counts


def scores_of(runs, depth, chosen, sets, seeds):
    """Scores by set and method, `(seeds, 3)`: CAL, MSE and NLL."""
    found = {}
    for name in sets:
        kept = [
            runs.find(depth=depth, set=name, seed=seed)["scores"]
            for seed in range(seeds)
        ]
        scores = {k: np.array([one[k] for one in kept]) for k in kept[0]}
        scores["ours"] = scores[f"stopped: {chosen}"]
        scores["recalibrated"] = scores[f"recalibrated: {chosen}"]
        found[name] = scores
    return found


def collect(runs, candidates, sets, seeds):
    """The results as `record` takes them.

    Args:
        runs: `Runs` that have every depth, set and seed.
        candidates: names of the recipes among which ours is chosen.
        sets: names of the data sets.
        seeds: number of them.
    """
    keys = itertools.product(DEPTHS, sets, range(seeds))
    kept = [runs.find(depth=d, set=n, seed=s) for d, n, s in keys]
    chosen, ranks = choose([run["held_out"] for run in kept], candidates)
    data = {"chosen": chosen, "ranks": ranks, "seeds": seeds}
    data |= {"tables": {}, "each_seed": {}}
    for depth in DEPTHS:
        scores = scores_of(runs, depth, chosen, sets, seeds)
        paper = "table:robust-reg" + "-linear" * (depth == "linear")
        data["tables"] |= tables_of(scores, depth, paper)
        data[depth] = summary(scores)
        data[depth]["at_floor"] = {
            name: np.mean(
                [
                    run["at_floor"]
                    for run in kept
                    if (run["depth"], run["set"]) == (depth, name)
                ]
            )
            for name in sets
        }
        data["each_seed"][depth] = {
            name: {method: found[method].tolist() for method in COLUMNS}
            for name, found in scores.items()
        }
    data["tables"]["ranks"] = {
        "columns": ["mean rank by NLL held out"],
        "rows": {name: [rank] for name, rank in ranks.items()},
        "digits": 2,
    }
    return data
