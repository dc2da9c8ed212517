"""Compares predicted distributions with boosting and dropout, on real tables.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... python benchmarks/uncertainty.py

The protocol is common (Hernandez-Lobato and Adams 2015): random 90/10 splits,
one hidden layer of 50 units, NLL and RMSE in the units of the target, mean and
standard error over the splits. A tenth of the training rows is used to choose
the epoch (the number of trees for boosting), and for recalibration and
conformal calibration. All methods get the same rows. `pip install ngboost
catboost` adds the peers. Results are written to `docs/results/uncertainty.json`
after each method, and a run continues where the last one stopped.

With `--recipes` the script compares ways to train a predicted scale instead
(`docs/results/recipes.json`): five networks each, with a least scale of .001.
`beta` weights each term by scale^(2 beta) (Seitzer et al., 2022), and the scale
of `hidden layer` has a hidden layer of its own on the features of the mean,
which it does not train (Stirn et al., 2023).
"""

import argparse
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import time

import keras
import many_networks
import numpy as np
from keras import ops

import keras_likelihood as kl
from keras_likelihood import likelihoods
from keras_likelihood.conformal import ConformalIntervals
from keras_likelihood.recalibration import regression

RESULTS = pathlib.Path(__file__).parents[1] / "docs" / "results"
DEVELOPMENT = ("autompg", "bank8FM")
"""The learning rate and the epochs were chosen on these sets."""
RECIPES_CHOSEN_ON = ("autompg", "cpu_act", "kin8nm", "soil")
COVERAGE = 0.9
CONSTANT = {"constant": ("scale",)}
T = {"likelihood": "student_t"}
NETWORKS = {
    "squared error": CONSTANT,
    "normal": {"members": 5},
    "normal, beta .5": {"beta": 0.5},
    "Student's t": {**T, "constant": ("df",), "members": 5},
    "mixture of 3": {"likelihood": likelihoods.Mixture("normal", components=3)},
}
"""Arguments of `networks` by the name of the row."""
FIVE = {"constant": ("df",), "members": 5, "offset": 1e-3}
RECIPES = {
    "squared error": {**FIVE, **CONSTANT},
    "Student's t": {**T, **FIVE},
    "beta .5, hidden layer": {**T, **FIVE, "beta": 0.5, "isolated": True},
    "beta 1, hidden layer": {**T, **FIVE, "beta": 1.0, "isolated": True},
}
INTERVALS = (
    *("squared error", "normal", "Student's t", "mixture of 3"),
    *("Student's t, 5 members", "MC dropout", "NGBoost", "CatBoost"),
)
PASSES = 20
SLOW_SPLITS = 3
INTERVAL_SPLITS = 5
"""Intervals of ensembles take long: large sets have them on these splits."""


def load(path, splits):
    """Training, held-out and test rows, `(rows, splits, ...)`, and units."""
    with np.load(path) as file:
        x, y = file["X"].astype("float64"), file["y"].astype("float64")
    parts, units = [[], [], []], []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        test, rest = np.split(order, [len(y) // 10])
        held_out, train = np.split(rest, [len(rest) // 10])
        mean, deviation = np.nanmean(x[rest], 0), np.nanstd(x[rest], 0)
        z = np.where(np.isnan(x), mean, x) - mean
        z = np.clip(z / np.where(deviation > 0, deviation, 1), -10, 10)
        units.append(y[rest].std())
        target = (y - y[rest].mean()) / units[-1]
        for part, rows in zip(parts, (train, held_out, test), strict=True):
            part.append((z[rows], target[rows]))
    stacked = [
        [np.stack(a, axis=1).astype("float32") for a in zip(*part, strict=True)]
        for part in parts
    ]
    return stacked, np.array(units)


def budget(rows):
    """`(epochs, batch size)` for a number of rows."""
    if rows < 2500:
        return 100, 32
    return 60, 64 if rows < 20_000 else 256


def distributions(likelihood, outputs, splits, members):
    """Distribution of each split for the first `members` of its networks."""
    names = [p.name for p in likelihood.parameters]
    total = outputs[0].shape[1] // splits
    for s in range(splits):
        rows = slice(s * total, s * total + members)
        prediction, *values = [v[:, rows] for v in outputs]
        if members == 1:
            values = dict(zip(names, (v[:, 0] for v in values), strict=True))
            yield likelihood(prediction[:, 0], **values)
            continue
        kind = kl.ensembles.EnsembleDistribution(likelihood, components=members)
        flat = [v.reshape(len(v), -1) for v in (prediction, *values)]
        values = dict(zip(names, flat[1:], strict=True))
        yield kind(prediction.mean(axis=1), member=flat[0], **values)


def judge_all(pairs, parts, units, intervals=True):
    """Scores of each split, of pairs of its test and held-out distribution."""
    large = len(parts[0][0]) > 5000
    scores = []
    for s, (test, held_out) in enumerate(pairs):
        y_held_out, y = parts[1][1][:, s], parts[2][1][:, s]
        scores.append(judge(test, y, units[s]))
        if intervals and (s < INTERVAL_SPLITS or not large):
            arguments = test, held_out, y_held_out, y, units[s]
            scores[-1] |= judge_intervals(*arguments)
    return scores


def judge(distribution, y, unit):
    """Error of the prediction and NLL, in the units of the target."""
    nll = ops.convert_to_numpy(distribution.nll(y[:, None]))
    gap = ops.convert_to_numpy(distribution.prediction).reshape(-1) - y
    return {
        "rmse": float(unit * np.sqrt(np.mean(gap**2))),
        "nll": float(np.mean(nll) + np.log(unit)),
    }


def judge_intervals(test, held_out, y_held_out, y, unit):
    """Coverage and width: plain, recalibrated and conformal."""
    numpy = ops.convert_to_numpy
    scores, intervals = {}, {"plain": test.interval(COVERAGE)}
    conformal = ConformalIntervals()
    conformal.fit_distribution(held_out, y_held_out)
    intervals["conformal"] = conformal.calibrate(test).interval(COVERAGE)
    if isinstance(test, likelihoods.LocationScale):
        scaling = regression.GlobalRescaling()
        scale = numpy(held_out.scale)
        scaling.fit_arrays(numpy(held_out.prediction), y_held_out, scale=scale)
        better = scaling.calibrate(
            numpy(test.prediction), scale=numpy(test.scale)
        )
        intervals["recalibrated"] = better.interval(COVERAGE)
    for name, ends in intervals.items():
        low, high = (numpy(v).reshape(len(y)) for v in ends)
        scores[f"coverage {name}"] = float(np.mean((low <= y) & (y <= high)))
        scores[f"width {name}"] = float(unit * np.mean(high - low))
    return scores


def networks(
    name,
    parts,
    units,
    *,
    likelihood="normal",
    constant=(),
    members=1,
    beta=0.0,
    **build,
):
    """Scores of the networks called `name`, by number of members."""
    likelihood, splits = likelihoods.get(likelihood), len(units)
    repeated = [[np.repeat(a, members, axis=1) for a in part] for part in parts]
    repeated = [(x, y[..., None]) for x, y in repeated]
    named = {
        "normal": kl.losses.NormalLoss,
        "student_t": kl.losses.StudentTLoss,
    }
    loss = kl.losses.LikelihoodLoss(likelihood)
    if beta:
        loss = named[likelihood.name()](beta=beta)
    keras.utils.set_random_seed(0)
    columns = parts[0][0].shape[2]
    model = many_networks.build(
        likelihood, splits * members, columns, constant, **build
    )
    epochs, batch_size = budget(len(parts[0][0]))
    many_networks.train(model, loss, *repeated[:2], epochs, batch_size, 0.01)
    outputs = [
        model.predict(x, batch_size=len(x), verbose=0) for x, _ in repeated[1:]
    ]
    scores = {}
    for count in sorted({1, members}):
        held_out, test = (
            distributions(likelihood, one, splits, count) for one in outputs
        )
        label = name if count == 1 else f"{name}, {count} members"
        pairs = zip(test, held_out, strict=True)
        scores[label] = judge_all(pairs, parts, units, label in INTERVALS)
    return scores


def dropout(name, parts, units, rate=0.05):
    """Monte Carlo dropout (Gal and Ghahramani 2016): a mixture of passes."""
    likelihood, splits = likelihoods.Normal, len(units)
    keras.utils.set_random_seed(0)
    columns = parts[0][0].shape[2]
    model = many_networks.build(
        likelihood, splits, columns, ("scale",), dropout=rate
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

    held_out, test = (
        distributions(likelihood, passes(x), splits, PASSES)
        for x, _ in three[1:]
    )
    return {name: judge_all(zip(test, held_out, strict=True), parts, units)}


def ngboost(train, held_out, inputs):
    """NGBoost at its defaults (Duan et al. 2020); held-out rows stop it."""
    from ngboost import NGBRegressor

    model = NGBRegressor(
        n_estimators=2000, early_stopping_rounds=50, verbose=False
    )
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a line
        model.fit(*train, X_val=held_out[0], Y_val=held_out[1])
    for x in inputs:
        predicted = model.pred_dist(x)
        yield predicted.loc, predicted.scale


def catboost(train, held_out, inputs):
    """CatBoost with its loss of mean and variance; held-out rows stop it."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        iterations=2000,
        early_stopping_rounds=50,
        allow_writing_files=False,
        thread_count=1,
        verbose=False,
    )
    model.fit(*train, eval_set=held_out)
    for x in inputs:
        mean, variance = model.predict(x).T
        yield mean, np.sqrt(variance)


PEERS = {"NGBoost": ngboost, "CatBoost": catboost}


def boosted(name, parts, units):
    """Scores of a peer. The slow one gets the first splits of large sets."""
    slow = name == "NGBoost" and len(parts[0][0]) > 5000

    def fit(s):
        train, held_out, test = ((x[:, s], y[:, s]) for x, y in parts)
        inputs = test[0], held_out[0]
        for mean, scale in PEERS[name](train, held_out, inputs):
            columns = (v.astype("float32")[:, None] for v in (mean, scale))
            yield likelihoods.Normal(next(columns), scale=next(columns))

    splits = range(SLOW_SPLITS if slow else len(units))
    return {name: judge_all(map(fit, splits), parts, units)}


def run(name, parts, units, recipes):
    """Lists of scores by row for one method."""
    if recipes:
        return networks(name, parts, units, **RECIPES[name])
    if name in NETWORKS:
        return networks(name, parts, units, **NETWORKS[name])
    function = dropout if name == "MC dropout" else boosted
    return function(name, parts, units)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--recipes", action="store_true")
    recipes = parser.parse_args().recipes
    installed = [n for n in PEERS if importlib.util.find_spec(n.lower())]
    names = RECIPES if recipes else [*NETWORKS, "MC dropout", *installed]
    output = RESULTS / ("recipes.json" if recipes else "uncertainty.json")
    results = json.loads(output.read_text()) if output.exists() else {}
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"]) / "regression"
    for path in sorted(folder.glob("*.npz"), key=lambda p: p.stat().st_size):
        with np.load(path) as file:
            rows = len(file["y"])
        splits = 20 if rows < 5000 else 10
        parts, units = load(path, splits)
        entry = results.setdefault(
            path.stem, {"rows": rows, "splits": splits, "methods": {}}
        )
        for name in names:
            if {name, f"{name}, 5 members"} & entry["methods"].keys():
                continue
            start = time.time()
            for label, scores in run(name, parts, units, recipes).items():
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
