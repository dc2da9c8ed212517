"""NLL, ECE and fit time of recalibrated networks.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/recalibration.py
    KERAS_LIKELIHOOD_DATA=... python benchmarks/recalibration.py --development

Every method is fitted to the validation logits of each file and evaluated on
the test logits. Differences from `AutoScaling` have 95 % intervals from a
paired bootstrap of the test rows. Results are added to
`docs/results/recalibration.json`. `--development` never reads the test logits:
each of five folds of the validation logits is the test set in turn.
"""

import argparse
import json
import os
import pathlib
import time
import warnings

import numpy as np
from recalibration_peers import NETWORKS

from keras_likelihood import recalibration
from keras_likelihood.metrics.functions import expected_calibration_error

OURS = (
    "GlobalScaling LinearScaling LinearFeatureScaling DeepScaling "
    "VectorScaling MatrixScaling AutoScaling"
).split()
STORE = pathlib.Path(__file__).parents[1] / "docs/results/recalibration.json"
OUTER_FOLDS = 5
DRAWS = 10_000


def ours(name):
    """A function from (validation, test) to probabilities."""

    def run(val, test):
        method = getattr(recalibration, name)()
        method.fit_arrays(val["logits"], val["y"], val["features"])
        return method.calibrate(test["logits"], test["features"])

    return run


def measure(run, pairs):
    """Scores and losses of a method on pairs of (validation, test)."""
    begin = time.process_time()
    p = np.concatenate([np.asarray(run(*pair), "float64") for pair in pairs])
    seconds = (time.process_time() - begin) / len(pairs)
    y = np.concatenate([test["y"] for _, test in pairs])
    p = np.maximum(p / p.sum(axis=1, keepdims=True), 1e-26)
    losses = -np.log(p[np.arange(len(y)), y])
    scores = {
        "nll": losses.mean(),
        "ece": expected_calibration_error(y, p),
        "processor_seconds": seconds,
    }
    return {k: round(float(v), 5) for k, v in scores.items()}, losses


def bootstrap(difference):
    """Mean and 95 % interval of paired differences."""
    random, size = np.random.default_rng(0), len(difference)
    means = [
        difference[random.integers(0, size, size)].mean() for _ in range(DRAWS)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return [round(float(v), 5) for v in (difference.mean(), low, high)]


def read(path, part):
    with np.load(path) as file:
        features = f"features_{part}"
        return {
            "logits": file[f"logits_{part}"],
            "y": file[f"y_{part}"].astype("int64"),
            "features": file[features] if features in file else None,
        }


def folds_of(data):
    """Pairs of (validation, test), all rows of `data`."""
    fold = np.random.default_rng(123).permutation(len(data["y"])) % OUTER_FOLDS

    def rows(mask):
        return {k: None if v is None else v[mask] for k, v in data.items()}

    return [(rows(fold != k), rows(fold == k)) for k in range(OUTER_FOLDS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--development", action="store_true")
    development = parser.parse_args().development
    warnings.filterwarnings("ignore")
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    part = store.setdefault("development" if development else "report", {})
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"], "logits")
    for path in sorted(folder.glob("*.npz")):
        val = read(path, "val")
        pairs = folds_of(val) if development else [(val, read(path, "test"))]
        print(path.stem)
        results = {}
        methods = {name: ours(name) for name in OURS} | NETWORKS
        for name, run in methods.items():
            needs = name in ("LinearFeatureScaling", "DeepScaling")
            if needs and val["features"] is None:
                continue
            try:
                results[name] = measure(run, pairs)
            except ImportError as error:
                print(f"  {name}: {error}")
                continue
            print(f"  {name:22}", results[name][0], flush=True)
        for name, (scores, losses) in results.items():
            if name != "AutoScaling":
                mine = results["AutoScaling"][1]
                scores["auto_minus_this"] = bootstrap(mine - losses)
            part.setdefault(path.stem, {})[name] = scores
        STORE.write_text(json.dumps(store, indent=1) + "\n")


if __name__ == "__main__":
    main()
