"""ROC-AUC, AUPR and fit time of outlier detectors on the ODDS sets.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/outliers.py
    python benchmarks/outliers.py --sets unseen
    python benchmarks/outliers.py --sets sklearn

Every detector is fitted, at its defaults, to the standardised rows of each set
without labels. Its scores of the same rows are then evaluated with the labels.
Random detectors run with five seeds, and their mean is used. The script
prints mean ranks over the sets with their critical difference (Friedman,
Nemenyi), medians and means. One of our networks is also scored by its
reconstruction error, to show the effect of the scale. `Auto` contains an
`AutoencoderScale` with the same seed, so its fit also gives the results of that
detector. Results are stored seed by seed in `docs/results/outliers_SETS.json`,
and a new run continues from them. The ranks of the stored runs are written to
`docs/results/outlier_ranks.json`.

The defaults of `PCAScale` and `AutoencoderScale` were chosen on the ODDS sets
and on `--sets sklearn`: the digits with one of the ten classes cut to 30 rows
as outliers, and breast cancer with 20 malignant cases. `--sets unseen` takes
scikit-learn's wines and irises, each class in turn cut to 10 rows as outliers.
"""

import argparse
import importlib
import json
import os
import pathlib
import re
import time
import warnings

import numpy as np
import paired
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

RESULTS = pathlib.Path(__file__).parents[1] / "docs" / "results"
BY_ERROR = "reconstruction error"
SHALLOW = "Auto without its deep part"
SEEDS = 5
MEASURED = ("seeds", "auc", "aupr", "seconds")
OURS = ("Auto", "PCAScale", "AutoencoderScale")
PEERS = (
    "LOF FeatureBagging ABOD AutoEncoder VAE COPOD ECOD PCA OCSVM MCD KNN HBOS "
    "IForest CBLOF INNE GMM"
).split()
RANDOM = "FeatureBagging AutoEncoder VAE MCD IForest CBLOF INNE GMM".split()


def odds_sets():
    """ODDS sets in the data folder, by name: `(x, y)`."""
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"], "odds")
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            yield path.stem, file["X"].astype("float64"), file["y"]


def sklearn_sets():
    """Sets made from scikit-learn's own."""
    from sklearn.datasets import load_breast_cancer, load_digits

    random = np.random.default_rng(0)
    x, digit = load_digits(return_X_y=True)
    for outlier in range(10):
        yield f"digit {outlier}", *cut(x, digit == outlier, 30, random)
    x, benign = load_breast_cancer(return_X_y=True)
    yield "cancer", *cut(x, benign == 0, 20, random)


def cut(x, outlier, count, random):
    """The rows and labels that remain if `count` outliers are kept."""
    chosen = random.permutation(np.flatnonzero(outlier))[:count]
    rows = np.concatenate([np.flatnonzero(~outlier), chosen])
    return x[rows], outlier[rows].astype(int)


def unseen_sets():
    """Each class of the wines and of the irises in turn as outliers."""
    from sklearn.datasets import load_iris, load_wine

    random = np.random.default_rng(0)
    for load, title in ((load_wine, "wine"), (load_iris, "iris")):
        x, y = load(return_X_y=True)
        for outlier in range(3):
            yield f"{title} {outlier}", *cut(x, y == outlier, 10, random)


SETS = {
    "odds": odds_sets,
    "sklearn": sklearn_sets,
    "unseen": unseen_sets,
}


def make(name, seed):
    """A detector at its defaults."""
    if name in OURS or name == SHALLOW:
        from keras_likelihood import outliers

        if name == SHALLOW:
            return outliers.AutoDetector(random_state=seed, steps=1)
        return getattr(outliers, name)(random_state=seed)
    path = re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()
    module = importlib.import_module(f"pyod.models.{path}")
    options = {}
    if name in RANDOM:
        options["random_state"] = seed
    if name in ("AutoEncoder", "VAE"):
        options["verbose"] = 0
    return getattr(module, name)(**options)


def measure(name, x, y, seed):
    """AUC, AUPR and seconds by what is scored."""
    np.random.seed(seed)
    detector = make(name, seed)
    started = time.perf_counter()
    try:
        detector.fit(x)
    except ValueError as error:
        # CBLOF of PyOD finds no clusters that it accepts for some seeds.
        print(f"{name}, seed {seed}: {error}", flush=True)
        return {}
    seconds = time.perf_counter() - started
    results = {
        title: {
            "seeds": seed,
            "auc": round(roc_auc_score(y, score), 5),
            "aupr": round(average_precision_score(y, score), 5),
            "seconds": round(seconds, 2),
        }
        for title, score in scores_of(name, detector, x).items()
    }
    if name in OURS:
        import keras

        keras.backend.clear_session()
    return results


def scores_of(name, detector, x):
    """Scores of the rows by what is scored, of one fitted detector."""
    # PyOD's PCA has infinite scores where columns are constant.
    scores = {name: np.nan_to_num(detector.decision_scores_)}
    if name == SHALLOW:
        *kinds, _ = detector.kinds(x).values()
        scores[name] = np.mean(kinds, axis=0) + detector._standardise(x)[1]
    if name not in OURS:
        return scores
    z, excess = detector._standardise(x)
    deep = name
    if name == "Auto":
        deep = "AutoencoderScale"
        scores[deep] = detector._predict(z) + excess
    decoded, _ = detector.model_.predict(z, batch_size=4096, verbose=0)
    scores[f"{deep}, {BY_ERROR}"] = np.abs(decoded - z).mean(axis=1)
    return scores


def run(sets, path):
    """Results by detector and set; seeds in the file are not run again."""
    results = json.loads(path.read_text()) if path.exists() else {}
    for name in [*OURS, SHALLOW, *PEERS]:
        drawn = SEEDS if name in OURS or name in RANDOM else 1
        for key, x, y in sets:
            done = list(results.get(name, {}).get(key, {}).get("seeds", ()))
            z = StandardScaler().fit_transform(x)
            # A seed with which a detector fails is replaced by a later one.
            for seed in range(2 * drawn):
                if seed in done or len(done) >= drawn:
                    continue
                for title, row in measure(name, z, y, seed).items():
                    done += [seed] if title == name else []
                    merge(results.setdefault(title, {}), key, row)
                    print(
                        f"{title:18}{key:14}{seed:3}{row['auc']:7.3f}"
                        f"{row['seconds']:8.1f} s",
                        flush=True,
                    )
                path.write_text(json.dumps(results))
    return results


def merge(rows, key, new):
    """Adds the measures of a new seed to those of a set."""
    lists = rows.setdefault(key, {name: [] for name in MEASURED})
    if new["seeds"] not in lists["seeds"]:
        for name in MEASURED:
            lists[name].append(new[name])


def values(results, measure_name):
    """Means over seeds, `(detectors, sets)`, and names of the detectors."""
    sets = list(next(iter(results.values())))
    names = [
        name
        for name, rows in results.items()
        if all(rows.get(s, {}).get(measure_name) for s in sets)
    ]
    table = [
        [np.mean(results[name][s][measure_name]) for s in sets]
        for name in names
    ]
    return np.array(table), names


def rank_table(results):
    """Mean ranks, medians and means by AUC and AUPR, best rank first."""
    rows, text = {}, []
    for key in ("auc", "aupr"):
        table, names = values(results, key)
        mean, p, least = paired.mean_ranks(table)
        middle = np.median(table, axis=1)
        for name, *numbers in zip(
            names, mean, middle, table.mean(axis=1), strict=True
        ):
            row = rows.setdefault(name, [])
            row += [None] * 3 * (key == "aupr" and not row)
            row += [round(float(value), 4) for value in numbers]
        text.append(
            f"{key}: least significant difference {least:.1f}, p {p:.0e}"
        )
    rows = {n: (row + [None] * 3)[:6] for n, row in rows.items()}
    order = sorted(rows, key=lambda name: rows[name][0])
    columns = ["rank by AUC", "median AUC", "mean AUC"]
    columns += ["rank by AUPR", "median AUPR", "mean AUPR"]
    return {
        "columns": columns,
        "rows": {name: rows[name] for name in order},
        "tests": text,
    }


def among_peers(results):
    """Mean rank by AUC of each of our detectors if it is the only one."""
    rows = {}
    for name in [*OURS, SHALLOW]:
        alone = {n: results[n] for n in (name, *PEERS) if n in results}
        table, names = values(alone, "auc")
        ranks = dict(zip(names, paired.mean_ranks(table)[0], strict=True))
        mine = float(ranks.pop(name))
        rows[name] = [round(mine, 2), round(float(min(ranks.values())), 2)]
    return {"columns": ["rank", "rank of the best peer"], "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", choices=SETS, default="odds")
    chosen = parser.parse_args().sets
    warnings.filterwarnings("ignore")
    path = RESULTS / f"outliers_{chosen}.json"
    print(rank_table(run(list(SETS[chosen]()), path)))
    odds, unseen = (
        json.loads((RESULTS / f"outliers_{name}.json").read_text())
        for name in ("odds", "unseen")
    )
    tables = {
        "odds": rank_table(odds),
        "unseen": rank_table(unseen),
        "among peers": among_peers(odds),
    }
    ranks = RESULTS / "outlier_ranks.json"
    ranks.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
