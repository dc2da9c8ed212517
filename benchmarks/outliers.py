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
from sklearn.metrics import roc_auc_score
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
    """Mean AUC and median fit seconds over the seeds."""
    aucs, seconds = [], []
    for seed in range(seeds):
        np.random.seed(seed)
        detector = make(name, seed)
        started = time.perf_counter()
        detector.fit(x)
        seconds.append(time.perf_counter() - started)
        # PyOD's PCA has infinite scores where columns are constant.
        scores = np.nan_to_num(detector.decision_scores_)
        aucs.append(roc_auc_score(y, scores))
        if name in OURS:
            import keras

            keras.backend.clear_session()
    return float(np.mean(aucs)), float(np.median(seconds))


def report(results):
    """Prints the table, the best median first."""
    sets = list(next(iter(results.values())))

    def median(name):
        return np.median([results[name][s][0] for s in sets])

    width = max(map(len, results)) + 2
    ranked = sorted(results, key=median, reverse=True)
    print(f"\n{'':{width}}{'median':>8}{'mean':>8}{'seconds':>10}")
    for name in ranked:
        found = np.array(list(results[name].values()))
        print(
            f"{name:{width}}{median(name):8.3f}{found[:, 0].mean():8.3f}"
            f"{found[:, 1].sum():10.1f}"
        )
    print(f"\n{'ROC-AUC':12}" + "".join(f"{n[:9]:>10}" for n in ranked))
    for s in sets:
        row = "".join(f"{results[n][s][0]:10.3f}" for n in ranked)
        print(f"{s[:11]:12}{row}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", choices=SETS, default="odds")
    parser.add_argument("--only", nargs="+", default=[*OURS, *PEERS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-seeds", type=int, default=1)
    parser.add_argument("--json", help="where to write the results")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    sets = list(SETS[args.sets]())
    results = {}
    for name in args.only:
        seeds = args.seeds if name in OURS else 1
        seeds = args.peer_seeds if name in RANDOM else seeds
        results[name] = {}
        for key, x, y in sets:
            z = StandardScaler().fit_transform(x)
            results[name][key] = measure(name, z, y, seeds)
            auc, seconds = results[name][key]
            print(f"{name:18}{key:14}{auc:7.3f}{seconds:8.1f} s", flush=True)
        if args.json:
            pathlib.Path(args.json).write_text(json.dumps(results, indent=1))
    report(results)


if __name__ == "__main__":
    main()
