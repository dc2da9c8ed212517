"""NLL, ECE, accuracy and fit time of recalibrated classifiers.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/recalibration.py
    KERAS_LIKELIHOOD_DATA=... python benchmarks/recalibration.py --development
    KERAS_LIKELIHOOD_DATA=... python benchmarks/recalibration.py --speed

Every method is fitted to the validation logits of each file and evaluated on
the test logits, together with the peers of `recalibration_peers.py` whose
packages are installed. Differences from `AutoScaling` have 95 % intervals from
a paired bootstrap of the test rows. `floor` is the ECE of labels drawn from the
calibrated probabilities themselves: the ECE of a perfectly calibrated model on
the same number of rows. The results are added to
`docs/results/recalibration.json`.

`--development` never reads the test logits: each of five folds of the
validation logits is the test set in turn.

`--speed` times temperature scaling on random logits of 50,000 x 1,000, with the
methods alternating.
"""

import argparse
import json
import os
import pathlib
import time
import warnings

import numpy as np

METHODS = (
    "GlobalScaling LinearScaling LinearFeatureScaling DeepScaling "
    "VectorScaling MatrixScaling AutoScaling"
)
RESULTS = pathlib.Path(__file__).parents[1] / "docs" / "results"
STORE = RESULTS / "recalibration.json"
OUTER_FOLDS = 5
DRAWS = 10_000


def ours(name):
    """A generator function from (validation, test) to probabilities."""

    def run(val, test):
        from keras_likelihood import recalibration

        method = getattr(recalibration, name)()
        method.fit_arrays(val["logits"], val["y"], val["features"])
        yield getattr(method, "weights_", None)
        yield method.calibrate(test["logits"], test["features"])

    return run


def ece_floor(p, draws=20):
    """Mean ECE of `p` on labels that `p` itself draws."""
    from keras_likelihood.metrics.functions import expected_calibration_error

    random = np.random.default_rng(0)
    upper = np.cumsum(p, axis=1)
    drawn = [
        np.argmax(upper > random.random((len(p), 1)) * upper[:, -1:], axis=1)
        for _ in range(draws)
    ]
    return np.mean([expected_calibration_error(y, p) for y in drawn])


def measure(run, pairs):
    """Scores of a method on pairs of (validation, test), or `None`."""
    from keras_likelihood.metrics.functions import expected_calibration_error

    seconds, found, labels, weights = np.zeros(2), [], [], None
    for val, test in pairs:
        steps = run(val, test)
        started = clocks()
        try:
            weights = next(steps)
        except ImportError:
            return None
        seconds += clocks() - started
        p = np.asarray(next(steps), dtype="float64")
        found.append(np.maximum(p / p.sum(axis=1, keepdims=True), 1e-26))
        labels.append(test["y"])
    p, y = np.concatenate(found), np.concatenate(labels)
    losses = -np.log(p[np.arange(len(y)), y])
    scores = {
        "nll": losses.mean(),
        "ece": expected_calibration_error(y, p),
        "floor": ece_floor(p),
        "accuracy": np.mean(p.argmax(axis=1) == y),
        "seconds": seconds[0] / len(pairs),
        "processor_seconds": seconds[1] / len(pairs),
    }
    scores = {name: round(float(value), 5) for name, value in scores.items()}
    if weights:
        scores["weights"] = {k: round(w, 3) for k, w in weights.items()}
    return scores, losses


def clocks():
    """The time that passed, and that which the processors computed."""
    return np.array([time.perf_counter(), time.process_time()])


def bootstrap(difference):
    """Mean and 95 % interval of paired differences."""
    random = np.random.default_rng(0)
    size = len(difference)
    means = [
        difference[random.integers(0, size, size)].mean() for _ in range(DRAWS)
    ]
    low, high = np.quantile(means, [0.025, 0.975])
    return [round(float(v), 5) for v in (difference.mean(), low, high)]


def part_of(file, part):
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

    return [
        (rows(fold != held), rows(fold == held)) for held in range(OUTER_FOLDS)
    ]


def compare(folder, files, methods, peers, development):
    from recalibration_peers import PEERS, uncalibrated

    part = "development" if development else "report"
    store = json.loads(STORE.read_text()) if STORE.exists() else {}
    for path in sorted(pathlib.Path(folder, "logits").glob(f"{files}.npz")):
        with np.load(path) as file:
            val = part_of(file, "val")
            pairs = folds_of(val) if development else None
            pairs = pairs or [(val, part_of(file, "test"))]
        print(path.stem)
        runs = {"Uncalibrated": uncalibrated}
        runs |= {name: ours(name) for name in methods}
        runs |= {name: PEERS[name] for name in peers or PEERS}
        found = {}
        for name, run in runs.items():
            needs = name in ("LinearFeatureScaling", "DeepScaling")
            if needs and val["features"] is None:
                continue
            found[name] = measure(run, pairs)
            print(f"  {name:22}", found[name] and found[name][0], flush=True)
        found = {name: one for name, one in found.items() if one}
        for name, (scores, losses) in found.items():
            if name != "AutoScaling":
                mine = found["AutoScaling"][1]
                scores["auto_minus_this"] = bootstrap(mine - losses)
        kept = store.setdefault(part, {}).setdefault(path.stem, {})
        kept.update({name: scores for name, (scores, _) in found.items()})
        STORE.write_text(json.dumps(store, indent=1) + "\n")


COLUMNS = {
    "GlobalScaling": "GS",
    "LinearFeatureScaling": "LFS",
    "ETS": "ETS",
    "isotonic mix": "isotonic mix",
    "Dirichlet": "Dirichlet",
    "probmetrics SVS": "SVS",
    "probmetrics SMS": "SMS",
    "AutoScaling": "`AutoScaling`",
}


def table(part):
    """The Markdown table of one part of the stored results."""
    stored = json.loads(STORE.read_text())[part]
    columns = {
        method: title
        for method, title in COLUMNS.items()
        if any(method in found for found in stored.values())
    }
    lines = [
        "| network | "
        + " | ".join(columns.values())
        + " | `AutoScaling` - SMS | s, `AutoScaling` | s, SMS |",
        "|---" * (len(columns) + 4) + "|",
    ]
    for name, found in stored.items():
        best = min(
            found[method]["nll"] for method in columns if method in found
        )
        cells = [name]
        for method in columns:
            nll = found.get(method, {}).get("nll")
            text = "" if nll is None else f"{nll:.4f}"
            cells.append(f"**{text}**" if nll == best else text)
        mean, low, high = found["probmetrics SMS"]["auto_minus_this"]
        cells.append(f"{mean:+.4f} ({low:+.4f}, {high:+.4f})")
        for method in ("AutoScaling", "probmetrics SMS"):
            cells.append(f"{found[method]['processor_seconds']:.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def speed(rows, classes, repeats):
    from recalibration_peers import PEERS

    from keras_likelihood.metrics.functions import negative_log_likelihood

    random = np.random.default_rng(0)
    logits = random.standard_normal((rows, classes), dtype="float32") * 2
    y = np.argmax(
        logits / 1.7 + random.gumbel(size=logits.shape).astype("float32"),
        axis=1,
    )
    val = {"logits": logits, "y": y, "features": None}
    runs = {n: ours(n) for n in ("GlobalScaling", "LinearScaling")}
    runs |= {n: run for n, run in PEERS.items() if n.endswith((" TS", "loop"))}
    times, scores = {}, {}
    for _ in range(repeats):
        for name, run in runs.items():
            steps = run(val, {k: v for k, v in val.items()})
            started = time.perf_counter()
            try:
                next(steps)
            except ImportError:
                continue
            times.setdefault(name, []).append(time.perf_counter() - started)
            print(f"  {name:22} {times[name][-1]:8.2f} s", flush=True)
            if name not in scores:
                p = np.asarray(next(steps), dtype="float64")
                scores[name] = negative_log_likelihood(y, p)
    base = min(times["GlobalScaling"])
    print(f"{rows} x {classes}, best of {repeats}")
    for name, seconds in times.items():
        best = min(seconds)
        print(
            f"  {name:22} {best:8.2f} s {best / base:7.1f} x   "
            f"NLL {scores[name]:.6f}"
        )
    store = json.loads(STORE.read_text())
    store["speed"] = {
        "rows": rows,
        "classes": classes,
        "seconds": round(base, 2),
        "times": {n: round(min(s) / base, 1) for n, s in times.items()},
        "nll": {n: round(float(nll), 6) for n, nll in scores.items()},
    }
    STORE.write_text(json.dumps(store, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", default="*")
    parser.add_argument("--methods", nargs="*", default=METHODS.split())
    parser.add_argument("--peers", nargs="*", default=None)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=1_000)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    if arguments.speed:
        speed(arguments.rows, arguments.classes, arguments.repeats)
        return
    compare(
        os.environ["KERAS_LIKELIHOOD_DATA"],
        arguments.files,
        arguments.methods,
        arguments.peers,
        arguments.development,
    )


if __name__ == "__main__":
    main()
