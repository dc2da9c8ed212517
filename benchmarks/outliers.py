"""ROC-AUC and fit time of outlier detectors on the ODDS sets.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/outliers.py
    KERAS_LIKELIHOOD_DATA=... python benchmarks/outliers.py --only PCAScale
    python benchmarks/outliers.py --sets sklearn
    python benchmarks/outliers.py --sets unseen

Every detector is fitted, at its defaults, to the standardised rows of each
set without their labels; its scores of the same rows are then judged by the
labels. Ours run with `--seeds` seeds, the others that draw random numbers
with `--peer-seeds`; their AUC is averaged over these. Printed are the AUC of
each set, the median over the sets, and the seconds of one fit, summed over
the sets.

`--sets sklearn` takes sets that come with scikit-learn instead: the digits
with one of the ten classes cut to 30 rows as outliers, and breast cancer with
20 malignant cases. Of our defaults, the mixture of noise levels alone was
chosen with an eye on these. `--sets unseen` takes sets that no default was
chosen on: scikit-learn's wines and irises, each class in turn cut to 10 rows
as outliers.
"""

import argparse
import importlib
import json
import os
import pathlib
import time
import warnings

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

OURS = ("PCAScale", "AutoencoderScale")
PEERS = {
    "LOF": "lof",
    "FeatureBagging": "feature_bagging",
    "ABOD": "abod",
    "AutoEncoder": "auto_encoder",
    "VAE": "vae",
    "COPOD": "copod",
    "ECOD": "ecod",
    "PCA": "pca",
    "OCSVM": "ocsvm",
    "MCD": "mcd",
    "KNN": "knn",
    "HBOS": "hbos",
    "IForest": "iforest",
    "CBLOF": "cblof",
    "INNE": "inne",
    "GMM": "gmm",
}
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


SETS = {"odds": odds_sets, "sklearn": sklearn_sets, "unseen": unseen_sets}


def make(name, seed):
    """A detector at its defaults."""
    if name in OURS:
        from keras_likelihood import outliers

        return getattr(outliers, name)(random_state=seed)
    module = importlib.import_module(f"pyod.models.{PEERS[name]}")
    options = {}
    if name in RANDOM:
        options["random_state"] = seed
    if name in ("AutoEncoder", "VAE"):
        options["verbose"] = 0
    return getattr(module, name)(**options)


def measure(name, x, y, seeds):
    """AUC, AUPR and fit seconds, a list over the seeds of each."""
    found = {"auc": [], "aupr": [], "seconds": []}
    for seed in range(seeds):
        np.random.seed(seed)
        detector = make(name, seed)
        started = time.perf_counter()
        try:
            detector.fit(x)
        except ValueError as error:
            # CBLOF of PyOD finds no clusters that it accepts for some seeds.
            print(f"{name}, seed {seed}: {error}", flush=True)
            continue
        found["seconds"].append(round(time.perf_counter() - started, 2))
        # PyOD's PCA has infinite scores where columns are constant.
        scores = np.nan_to_num(detector.decision_scores_)
        found["auc"].append(round(roc_auc_score(y, scores), 5))
        found["aupr"].append(round(average_precision_score(y, scores), 5))
        if name in OURS:
            import keras

            keras.backend.clear_session()
    return found


def run(names, sets, seeds, path):
    """Results by detector and set; those in the file are not run again."""
    results = {}
    if path and path.exists():
        results = json.loads(path.read_text())
    for name in names:
        mine = results.setdefault(name, {})
        for key, x, y in sets:
            if key in mine:
                continue
            z = StandardScaler().fit_transform(x)
            drawn = seeds if name in OURS or name in RANDOM else 1
            mine[key] = measure(name, z, y, drawn)
            auc, seconds = (np.mean(mine[key][k]) for k in ("auc", "seconds"))
            print(f"{name:18}{key:14}{auc:7.3f}{seconds:8.1f} s", flush=True)
            if path:
                path.write_text(json.dumps(results))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", choices=SETS, default="odds")
    parser.add_argument("--only", nargs="+", default=[*OURS, *PEERS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--json", type=pathlib.Path, help="results, continued where it exists"
    )
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    run(args.only, list(SETS[args.sets]()), args.seeds, args.json)


if __name__ == "__main__":
    main()
