"""Compares predicted distributions with boosting and dropout, on real tables.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... python benchmarks/uncertainty.py

The protocol is common (Hernandez-Lobato and Adams 2015): random 90/10 splits,
one hidden layer of 50 units, NLL and RMSE in the units of the target, mean and
standard error over the splits. A tenth of the training rows is used to choose
the epoch (the number of trees for boosting), and for recalibration and
conformal calibration. All methods get the same rows. `pip install ngboost
catboost` adds the peers. Results are written to `docs/results/uncertainty.json`
after each method, and a run continues where the last one stopped.
"""

import argparse
import json
import os
import pathlib
import time

import keras
import many_networks
import numpy as np
import uncertainty_peers as peers
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.recalibration import regression

DEVELOPMENT = ("autompg", "bank8FM")
"""The learning rate and the epochs were chosen on these sets."""
COVERAGE = 0.9
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
NETWORKS = {
    # name: (likelihood, constant parameters, options of the loss, members)
    "squared error": ("normal", ("scale",), {}, 1),
    "normal": ("normal", (), {}, 5),
    "normal, beta .5": ("normal", (), {"beta": 0.5}, 1),
    "Student's t": ("student_t", ("df",), {}, 8),
    "quantiles": (likelihoods.Quantiles(levels=LEVELS), (), {}, 1),
    "mixture of 3": (likelihoods.Mixture("normal", components=3), (), {}, 1),
}
INTERVALS = (
    *("squared error", "normal", "Student's t", "quantiles", "mixture of 3"),
    *("Student's t, 5 members", "MC dropout", "NGBoost", "CatBoost"),
)
PASSES = 20
SLOW_SPLITS = 3
INTERVAL_SPLITS = 5
"""Intervals of ensembles take long: large sets have them on these splits."""


def load(path, splits):
    """Training, held and test rows of each split: `(rows, splits, ...)`."""
    with np.load(path) as file:
        x, y = file["X"].astype("float64"), file["y"].astype("float64")
    parts, units = [[], [], []], []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        test, rest = np.split(order, [len(y) // 10])
        held, train = np.split(rest, [len(rest) // 10])
        mean, deviation = np.nanmean(x[rest], 0), np.nanstd(x[rest], 0)
        z = np.where(np.isnan(x), mean, x) - mean
        z = np.clip(z / np.where(deviation > 0, deviation, 1), -10, 10)
        units.append((y[rest].mean(), y[rest].std()))
        target = (y - units[-1][0]) / units[-1][1]
        for part, rows in zip(parts, (train, held, test), strict=True):
            part.append((z[rows], target[rows]))
    stacked = [
        tuple(
            np.stack(a, axis=1).astype("float32") for a in zip(*p, strict=True)
        )
        for p in parts
    ]
    return stacked, np.array([spread for _, spread in units])


def budget(rows):
    """`(epochs, batch size)` for a number of rows."""
    if rows < 2500:
        return 100, 32
    return 60, 64 if rows < 20_000 else 256


def laws(likelihood, outputs, splits, members):
    """Distribution of each split for the first `members` of its networks."""
    names = [p.name for p in likelihood.parameters]
    total = outputs[0].shape[1] // splits
    found = []
    for s in range(splits):
        rows = slice(s * total, s * total + members)
        prediction, *values = [v[:, rows] for v in outputs]
        if members == 1:
            values = dict(zip(names, (v[:, 0] for v in values), strict=True))
            found.append(likelihood(prediction[:, 0], **values))
            continue
        kind = kl.ensembles.EnsembleDistribution(likelihood, components=members)
        flat = [v.reshape(len(v), -1) for v in (prediction, *values)]
        found.append(
            kind(
                prediction.mean(axis=1),
                member=flat[0],
                **dict(zip(names, flat[1:], strict=True)),
            )
        )
    return found


def judge_all(pairs, parts, spreads, intervals=True):
    """Scores of each split.

    Args:
        pairs: `(law of the test rows, law of the held rows)` of each split.
        parts: training, held and test rows.
        spreads: unit of the target, by split.
        intervals: whether to judge intervals too.
    """
    large = len(parts[0][0]) > 5000
    found = []
    for s, (law, held) in enumerate(pairs):
        y_held, y = parts[1][1][:, s], parts[2][1][:, s]
        scores = judge(law, y, spreads[s])
        if intervals and (s < INTERVAL_SPLITS or not large):
            scores |= judge_intervals(law, held, y_held, y, spreads[s])
        found.append(scores)
    return found


def judge(law, y, spread):
    """Error of the prediction and NLL, in the units of the target."""
    numpy = ops.convert_to_numpy
    is_quantiles = isinstance(law, likelihoods.Quantiles)
    target = y if is_quantiles else y[:, None]
    scores = {
        "rmse": float(spread * np.sqrt(np.mean((mean_of(law) - y) ** 2))),
        "nll": float(np.mean(numpy(law.nll(target))) + np.log(spread)),
    }
    if is_quantiles:
        del scores["nll"]
    return scores


def judge_intervals(law, held, y_held, y, spread):
    """Coverage and width: plain, recalibrated and conformal."""
    numpy = ops.convert_to_numpy
    scores = {}
    intervals = {"plain": law.interval(COVERAGE)}
    conformal = ConformalIntervals()
    conformal.fit_distribution(held, y_held)
    intervals["conformal"] = conformal.calibrate(law).interval(COVERAGE)
    if isinstance(law, likelihoods.LocationScale):
        scaling = regression.GlobalRescaling()
        scaling.fit_arrays(
            numpy(held.prediction), y_held, scale=numpy(held.scale)
        )
        better = scaling.calibrate(
            numpy(law.prediction), scale=numpy(law.scale)
        )
        intervals["recalibrated"] = better.interval(COVERAGE)
        nll = numpy(better.nll(y.reshape(better.prediction.shape)))
        scores["nll recalibrated"] = float(np.mean(nll) + np.log(spread))
    for name, ends in intervals.items():
        low, high = (numpy(v).reshape(len(y)) for v in ends)
        scores[f"coverage {name}"] = float(np.mean((low <= y) & (y <= high)))
        scores[f"width {name}"] = float(spread * np.mean(high - low))
    return scores


def mean_of(law):
    """The prediction that the squared error judges."""
    if isinstance(law, likelihoods.Quantiles):
        return ops.convert_to_numpy(law.quantile(0.5)).reshape(-1)
    return ops.convert_to_numpy(law.prediction).reshape(-1)


def networks(name, parts, spreads):
    """Scores of the networks called `name`, by number of members."""
    kind, constant, options, members = NETWORKS[name]
    likelihood = likelihoods.get(kind)
    splits = len(spreads)
    is_quantiles = issubclass(likelihood, likelihoods.Quantiles)
    repeated = [
        (
            np.repeat(x, members, axis=1),
            np.repeat(y, members, axis=1)[(..., *[None] * (not is_quantiles))],
        )
        for x, y in parts
    ]
    loss = (
        kl.losses.NormalLoss(**options)
        if options
        else kl.losses.LikelihoodLoss(likelihood)
    )
    keras.utils.set_random_seed(0)
    model = many_networks.build(
        likelihood, splits * members, parts[0][0].shape[2], constant
    )
    epochs, batch_size = budget(len(parts[0][0]))
    many_networks.train(model, loss, *repeated[:2], epochs, batch_size, 0.01)
    held, test = (
        model.predict(x, batch_size=len(x), verbose=0) for x, _ in repeated[1:]
    )
    found = {}
    for count in sorted({1, min(5, members), members}):
        pairs = zip(
            laws(likelihood, test, splits, count),
            laws(likelihood, held, splits, count),
            strict=True,
        )
        label = name if count == 1 else f"{name}, {count} members"
        found[label] = judge_all(
            pairs, parts, spreads, intervals=label in INTERVALS
        )
    return found


def dropout(parts, spreads, rate=0.05):
    """Monte Carlo dropout (Gal and Ghahramani 2016): a mixture of passes."""
    likelihood, splits = likelihoods.Normal, len(spreads)
    keras.utils.set_random_seed(0)
    model = many_networks.build(
        likelihood, splits, parts[0][0].shape[2], ("scale",), rate
    )
    epochs, batch_size = budget(len(parts[0][0]))
    three = [(x, y[..., None]) for x, y in parts]
    loss = kl.losses.NormalLoss()
    many_networks.train(model, loss, *three[:2], epochs, batch_size, 0.01)

    def passes(x):
        every = [
            model.predict(x, batch_size=len(x), verbose=0)
            for _ in range(PASSES)
        ]
        # The passes of a split are members, one after the other.
        return [
            np.stack(v, axis=2).reshape(len(x), -1, 1)
            for v in zip(*every, strict=True)
        ]

    held, test = (
        laws(likelihood, passes(x), splits, PASSES) for x, _ in three[1:]
    )
    return judge_all(zip(test, held, strict=True), parts, spreads)


def boosted(name, method, parts, spreads):
    """Scores of a peer. The slow one gets the first splits of large sets."""
    slow = name == "NGBoost" and len(parts[0][0]) > 5000
    pairs = (
        method(*((x[:, s], y[:, s]) for x, y in parts))
        for s in range(SLOW_SPLITS if slow else len(spreads))
    )
    return judge_all(pairs, parts, spreads)


def methods_for(parts, spreads):
    """What to run, by name: each gives lists of scores by row's name."""
    jobs = {
        name: (lambda name=name: networks(name, parts, spreads))
        for name in NETWORKS
    }
    jobs["MC dropout"] = lambda: {"MC dropout": dropout(parts, spreads)}
    for name, method in peers.available().items():
        jobs[name] = lambda name=name, method=method: {
            name: boosted(name, method, parts, spreads)
        }
    return jobs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--methods", nargs="*")
    parser.add_argument("--output", default="docs/results/uncertainty.json")
    arguments = parser.parse_args()
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"]) / "regression"
    output = pathlib.Path(arguments.output)
    results = json.loads(output.read_text()) if output.exists() else {}
    paths = sorted(folder.glob("*.npz"), key=lambda p: p.stat().st_size)
    for path in paths:
        if arguments.sets and path.stem not in arguments.sets:
            continue
        with np.load(path) as file:
            rows = len(file["y"])
        splits = 20 if rows < 5000 else 10
        parts, spreads = load(path, splits)
        entry = results.setdefault(
            path.stem, {"rows": rows, "splits": splits, "methods": {}}
        )
        for name, job in methods_for(parts, spreads).items():
            done = name in entry["methods"]
            if done or (arguments.methods and name not in arguments.methods):
                continue
            start = time.time()
            for label, scores in job().items():
                values = {
                    key: [float(f"{s[key]:.5g}") for s in scores if key in s]
                    for key in scores[0]
                }
                entry["methods"][label] = values
                nll = np.mean(values.get("nll", np.nan))
                rmse = np.mean(values["rmse"])
                print(f"{path.stem:16s} {label:24s} {nll:8.3f} {rmse:8.4f}")
            print(f"  {time.time() - start:.0f} s", flush=True)
            output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
