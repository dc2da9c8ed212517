"""Estimators for tables against boosted trees and Gaussian processes.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... python benchmarks/tabular.py

There are 20 random 90/10 splits for tables with less than 5,000 rows, else 10,
as in `benchmarks/uncertainty.py`. Each method may use the 90 % in any way. The
peers hold out a tenth of them to choose the number of trees and for conformal
calibration. The kernel of the Gaussian process (Matern 1.5, 2.5 or RBF) was
chosen on five splits of the development tables. `--classes` runs tables with
classes. `--peers` needs `pip install ngboost catboost lightgbm mapie`. Results
are written after each split, and a run continues where the last one stopped.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import sys
import time

import keras
import numpy as np

import keras_likelihood as kl

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import paired
import uncertainty_peers as peers

DEVELOPMENT = ("autompg", "crime_norm", "kin8nm", "soil")
"""Tables for choosing settings; their results are not a report."""
CLASSES = ("breast_cancer", "wine", "digits", "iris")
"""Tables of scikit-learn."""
OUTLIERS = ("pima", "ionosphere", "cardio", "vowels", "satellite")
"""Tables of ODDS, whose outliers are a class here."""
PEERS = ("NGBoost", "CatBoost", "GP")
COVERAGE = 0.9
LEVELS = np.linspace(0.05, 0.95, 19)
OVERLAP = 1 / 9
"""Test rows divided by training rows of a split."""


def regression_tables(names):
    """Name, rows and targets of each table, the small ones first."""
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"]) / "regression"
    paths = sorted(folder.glob("*.npz"), key=lambda p: p.stat().st_size)
    for path in paths:
        if not names or path.stem in names:
            with np.load(path) as file:
                x, y = file["X"].astype("float64"), file["y"]
            yield path.stem, x, y.astype("float64")


def class_tables(names):
    """Name, rows and classes of each table with classes."""
    from sklearn import datasets

    for name in CLASSES:
        if not names or name in names:
            yield name, *getattr(datasets, f"load_{name}")(return_X_y=True)
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"]) / "odds"
    for name in OUTLIERS:
        if not names or name in names:
            with np.load(folder / f"{name}.npz") as file:
                yield name, file["X"].astype("float64"), file["y"].astype(int)


def judge(distribution, interval, prediction, y):
    """Scores in the units of the target."""
    numpy = keras.ops.convert_to_numpy
    target = y[:, None].astype("float32")
    quantiles = np.stack(
        [numpy(distribution.quantile(float(p)))[:, 0] for p in LEVELS]
    )
    gap = y - quantiles
    pinball = np.maximum(LEVELS[:, None] * gap, (LEVELS[:, None] - 1) * gap)
    lower, upper = (np.reshape(v, len(y)) for v in interval)
    return {
        "nll": float(numpy(distribution.nll(target)).mean()),
        "rmse": float(np.sqrt(np.mean((prediction - y) ** 2))),
        # Twice the mean pinball loss approximates the CRPS.
        "crps": float(2 * pinball.mean()),
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "width": float(np.mean(upper - lower)),
    }


def ours(train, test, seed):
    model = kl.tabular.Regressor(random_state=seed).fit(*train)
    x, y = test
    found = model.predict_distribution(x)
    return judge(found, model.interval(x, COVERAGE), model.predict(x), y)


def boosted(method):
    """A peer with a normal distribution, standardised and conformalised."""

    def run(train, test, seed):
        (x, y), centre, spread = train, train[1].mean(), train[1].std()
        # NGBoost cannot take missing values.
        middle = np.nan_to_num(np.nanmedian(x, axis=0))
        x, x_test = (np.where(np.isnan(v), middle, v) for v in (x, test[0]))
        held, rest = np.split(np.arange(len(y)), [len(y) // 10])
        z = (y - centre) / spread
        law, before = method(
            (x[rest], z[rest]), (x[held], z[held]), (x_test, None)
        )
        conformal = kl.conformal.ConformalIntervals()
        conformal.fit_distribution(before, z[held])
        ends = conformal.calibrate(law).interval(COVERAGE)
        scores = judge(
            law,
            ends,
            keras.ops.convert_to_numpy(law.prediction)[:, 0],
            (test[1] - centre) / spread,
        )
        scores["nll"] += float(np.log(spread))
        for name in ("rmse", "crps", "width"):
            scores[name] *= float(spread)
        return scores

    return run


def mapie(train, test, seed):
    """MAPIE's CV+ around CatBoost, which has intervals alone."""
    from catboost import CatBoostRegressor
    from mapie.regression import CrossConformalRegressor

    model = CatBoostRegressor(
        verbose=False, allow_writing_files=False, random_seed=seed
    )
    found = CrossConformalRegressor(
        model, confidence_level=COVERAGE, method="plus", cv=5
    )
    found.fit_conformalize(*train)
    prediction, ends = found.predict_interval(test[0])
    lower, upper, y = ends[:, 0, 0], ends[:, 1, 0], test[1]
    return {
        "rmse": float(np.sqrt(np.mean((prediction - y) ** 2))),
        "coverage": float(np.mean((lower <= y) & (y <= upper))),
        "width": float(np.mean(upper - lower)),
    }


def regressors(with_peers):
    """Methods by name; a peer that is not installed is left out."""
    found = {"kl.tabular": ours}
    if with_peers:
        for name, method in peers.available().items():
            found[name] = boosted(method)
        found["GP"] = boosted(peers.gaussian_process)
        if importlib.util.find_spec("mapie"):
            found["MAPIE"] = mapie
    return found


def classifiers(with_peers):
    from sklearn.calibration import CalibratedClassifierCV

    def scored(make):
        def run(train, test, seed):
            model = make(seed).fit(*train)
            p, y = model.predict_proba(test[0]), test[1]
            nll = kl.metrics.functions.negative_log_likelihood
            right = model.classes_[p.argmax(axis=1)] == y
            return {"nll": nll(y, p), "accuracy": float(right.mean())}

        return run

    found = {
        "kl.tabular": scored(lambda s: kl.tabular.Classifier(random_state=s))
    }
    if with_peers and importlib.util.find_spec("catboost"):
        from catboost import CatBoostClassifier

        found["CatBoost"] = scored(
            lambda s: CatBoostClassifier(
                verbose=False, allow_writing_files=False, random_seed=s
            )
        )
    if with_peers and importlib.util.find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        found["LightGBM, calibrated"] = scored(
            lambda s: CalibratedClassifierCV(
                LGBMClassifier(verbose=-1, random_state=s)
            )
        )
    return found


def split(x, y, seed):
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [len(y) // 10])
    return (x[train], y[train]), (x[test], y[test])


def shared(methods, name, key):
    """Results of a method and of ours on the splits that both have."""
    theirs, own = methods.get(name, {}), methods.get("kl.tabular", {})
    seeds = [s for s in theirs if key in theirs[s] and key in own.get(s, {})]
    return [
        np.array([found[seed][key] for seed in seeds])
        for found in (theirs, own)
    ]


def ratio(methods, name, key):
    """Our mean relative to that of a peer, as text."""
    theirs, own = shared(methods, name, key)
    return f"{own.mean() / theirs.mean():.2f}" if len(own) else "–"


def nll_cells(methods, others) -> str:
    """Mean NLL of ours and of peers. A bold one is clearly lower."""
    own = [s["nll"] for s in methods["kl.tabular"].values()]
    cells, lower = [], []
    for name in others:
        theirs, ours_ = shared(methods, name, "nll")
        if len(theirs) < 2:
            cells.append("–")
            continue
        low, high = paired.difference(ours_, theirs, overlap=OVERLAP)[1:]
        lower.append(high < 0)
        text = f"{theirs.mean():.3f} ({len(theirs)})"
        cells.append(f"**{text}**" if low > 0 else text)
    mean = f"{np.mean(own):.3f} ({len(own)})"
    mean = f"**{mean}**" if lower and all(lower) else mean
    return " | ".join([mean, *cells])


def class_table(results) -> str:
    """The table of the page for classes, Markdown."""
    others = ("CatBoost", "LightGBM, calibrated")
    lines = [
        "| table | kl.tabular | CatBoost | LightGBM, calibrated |",
        "|---|---:|---:|---:|",
    ]
    for table, methods in results.items():
        lines.append(f"| {table} | {nll_cells(methods, others)} |")
    return "\n".join(lines)


def tables(results) -> dict:
    """The tables of the page for numbers, Markdown by name."""
    lines, ratios, intervals = [], [], []
    for table, methods in results.items():
        mark = " (development)" if table in DEVELOPMENT else ""
        cells = nll_cells(methods, PEERS)
        lines.append(f"| {table}{mark} | {cells} |")
        compared = [
            ratio(methods, peer, key)
            for key in ("rmse", "crps")
            for peer in PEERS
        ]
        ratios.append(f"| {table}{mark} | {' | '.join(compared)} |")
        if covered := [
            scores["coverage"]
            for scores in methods["kl.tabular"].values()
            if "coverage" in scores
        ]:
            theirs = shared(methods, "MAPIE", "coverage")[0]
            peer = f"{100 * theirs.mean():.1f} %" if len(theirs) else "–"
            intervals.append(
                f"| {table}{mark} | {100 * np.mean(covered):.1f} % "
                f"({len(covered)}) | {peer} | "
                f"{ratio(methods, 'MAPIE', 'width')} |"
            )
    head = f"| table | kl.tabular | {' | '.join(PEERS)} |\n|---{'|---:' * 4}|\n"
    compared = [f"{m} / {peer}'s" for m in ("RMSE", "CRPS") for peer in PEERS]
    other = f"| table | {' | '.join(compared)} |\n|---{'|---:' * 6}|\n"
    ends = (
        "| table | kl.tabular contains | MAPIE contains | width / MAPIE's |\n"
        "|---|---:|---:|---:|\n"
    )
    return {
        "nll": head + "\n".join(lines),
        "ratios": other + "\n".join(ratios),
        "intervals": ends + "\n".join(intervals),
    }


def wins(results, peer) -> tuple[int, int, int]:
    """Tables on which ours has a clearly lower NLL, on which the peer has, all.

    Development tables do not count.
    """
    pairs = [
        shared(methods, peer, "nll")
        for table, methods in results.items()
        if table not in DEVELOPMENT
    ]
    pairs = [(theirs, own) for theirs, own in pairs if len(own) > 1]
    below = [paired.is_below(b, a, overlap=OVERLAP) for a, b in pairs]
    above = [paired.is_below(a, b, overlap=OVERLAP) for a, b in pairs]
    return sum(below), sum(above), len(pairs)


def lower_on(results, peer) -> list[str]:
    """The tables on which our mean NLL is lower than that of a peer."""
    found = {t: shared(methods, peer, "nll") for t, methods in results.items()}
    return [
        t for t, (theirs, own) in found.items() if own.mean() < theirs.mean()
    ]


def interval_scores(results):
    """On tables that are no development set, beside MAPIE on the same splits.

    Returns:
        Coverage of ours and of MAPIE, means over the tables, and for each table
        whether our intervals are narrower.
    """
    kept = [m for table, m in results.items() if table not in DEVELOPMENT]
    covered = [shared(methods, "MAPIE", "coverage") for methods in kept]
    widths = [shared(methods, "MAPIE", "width") for methods in kept]
    return (
        np.mean([own.mean() for _, own in covered]),
        np.mean([theirs.mean() for theirs, _ in covered]),
        [bool(own.mean() < theirs.mean()) for theirs, own in widths],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="*", help="default: all")
    parser.add_argument("--splits", type=int, help="default: 20 or 10")
    parser.add_argument("--seeds", nargs="*", type=int, help="of the splits")
    parser.add_argument("--methods", nargs="*", help="default: all")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--output", default="tabular.json")
    arguments = parser.parse_args()
    output = pathlib.Path(arguments.output)
    results = json.loads(output.read_text()) if output.exists() else {}
    make = classifiers if arguments.classes else regressors
    read = class_tables if arguments.classes else regression_tables
    for table, x, y in read(arguments.tables):
        splits = arguments.splits or (20 if len(y) < 5000 else 10)
        seeds = arguments.seeds or range(splits)
        for name, method in make(arguments.peers).items():
            if arguments.methods and name not in arguments.methods:
                continue
            done = results.setdefault(table, {}).setdefault(name, {})
            for seed in seeds:
                if str(seed) in done:
                    continue
                train, test = split(x, y, seed)
                start, used = time.time(), time.process_time()
                scores = method(train, test, seed)
                scores["seconds"] = round(time.time() - start, 1)
                scores["cpu"] = round(time.process_time() - used, 1)
                done[str(seed)] = scores
                output.write_text(json.dumps(results, indent=1) + "\n")
                print(table, name, seed, scores, flush=True)
    if arguments.classes:
        print(class_table(results))
    else:
        print(*tables(results).values(), sep="\n\n")


if __name__ == "__main__":
    main()
