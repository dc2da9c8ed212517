"""Outlier detection on the ODDS sets.

    python benchmarks/outliers.py --json outliers.json
    python benchmarks/outliers.py --sets unseen --json unseen.json
    python benchmarks/paper/outliers_table.py --json outliers.json \\
        --unseen unseen.json

Draws the distribution of the AUC over the sets from the benchmark's results.
Without `--json`, the benchmark is run for our own detectors alone. Our places
on the sets of `--unseen`, on which nothing was chosen, are recorded too.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from results import HERE, WIDTH, parser, pyplot, record

OURS = {"PCAScale": "PCA+S", "AutoencoderScale": "AE+S", "Auto": "Auto"}
RESULTS = HERE.parents[1] / "docs" / "results"


def run_benchmark(seeds):
    """The benchmark of our detectors."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "outliers.json")
        script = HERE.parents[1] / "benchmarks" / "outliers.py"
        command = [sys.executable, str(script), "--only", *OURS]
        command += ["--seeds", str(seeds), "--json", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(path.read_text())


def made_up():
    """Results of the benchmark's form, for a smoke test."""
    rng = np.random.default_rng(0)
    return {
        name: {key: {"auc": [rng.uniform(0.5, 1)]} for key in ("pima", "wbc")}
        for name in [*OURS, "KNN"]
    }


def aucs_of(results):
    """AUC by detector and set, means over the seeds."""
    return {
        OURS.get(name, name): {
            key: float(np.mean(one["auc"])) for key, one in sets.items()
        }
        for name, sets in results.items()
    }


def places(found):
    """The places of ours by median AUC, of all detectors."""
    order = sorted(found, key=lambda n: -np.median(list(found[n].values())))
    return {
        "sets": len(found[order[0]]),
        "methods": len(order),
        "first": order[0],
        "places": {n: 1 + order.index(n) for n in OURS.values() if n in order},
    }


def draw(aucs):
    plt = pyplot()
    figure, axis = plt.subplots(figsize=(WIDTH, 1 + 0.26 * len(aucs)))
    order = sorted(aucs, key=lambda name: np.median(aucs[name]))
    boxes = axis.boxplot(
        [aucs[name] for name in order],
        orientation="horizontal",
        patch_artist=True,
        medianprops={"color": "black"},
        flierprops={"markersize": 3},
    )
    for name, box in zip(order, boxes["boxes"], strict=True):
        box.set_facecolor("C1" if name in OURS.values() else "0.85")
    axis.set_yticks(range(1, len(order) + 1), order)
    axis.set(xlabel="ROC-AUC over the sets (high is good)")
    return figure


def main():
    options = parser(__doc__)
    options.add_argument(
        "--json", nargs="+", help="results of benchmarks/outliers.py, merged"
    )
    options.add_argument(
        "--unseen",
        default=str(RESULTS / "outliers_unseen.json"),
        help="results of benchmarks/outliers.py --sets unseen",
    )
    options.add_argument("--seeds", type=int, default=1)
    options = options.parse_args()
    if options.quick:
        found = made_up()
    elif options.json:
        found = {}
        for path in options.json:
            found |= json.loads(pathlib.Path(path).read_text())
    else:
        found = run_benchmark(options.seeds)
    found = aucs_of(found)
    aucs = {name: list(sets.values()) for name, sets in found.items()}
    order = sorted(aucs, key=lambda name: -np.median(aucs[name]))
    rows = {n: [np.median(aucs[n]), np.mean(aucs[n])] for n in order}
    keys = dict.fromkeys(key for scores in found.values() for key in scores)
    per_set = {key: [found[name].get(key) for name in order] for key in keys}
    data = {
        "sets": len(per_set),
        "methods": len(order),
        "place": 1 + min(order.index(n) for n in OURS.values() if n in order),
        "tables": {
            "auc": {
                "columns": ["median AUC", "mean AUC"],
                "rows": rows,
                "paper": "tab:outlier-det",
            },
            "sets": {"columns": order, "rows": per_set},
        },
    }
    unseen = json.loads(pathlib.Path(options.unseen).read_text())
    data["apart"] = places(aucs_of(unseen))
    record("outliers_table", data, {"auc": draw(aucs)}, quick=options.quick)


if __name__ == "__main__":
    main()
