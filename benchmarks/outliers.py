"""ROC-AUC, AUPR and fit time of outlier detectors on the ODDS sets.

    KERAS_LIKELIHOOD_DATA=... python benchmarks/outliers.py --json RESULTS
    KERAS_LIKELIHOOD_DATA=... python benchmarks/outliers.py --only Auto
    python benchmarks/outliers.py --sets sklearn
    python benchmarks/outliers.py --sets unseen --json UNSEEN
    python benchmarks/outliers.py --sets generated --only Auto
    python benchmarks/outliers.py --sets hard --only Auto IForest ECOD
    python benchmarks/outliers.py --page

Every detector is fitted, at its defaults, to the standardised rows of each set
without labels. Its scores of the same rows are then evaluated with the labels.
Random detectors run with `--seeds` seeds, and their mean is used. The script
prints mean ranks over the sets with their critical difference (Friedman,
Nemenyi), medians and means. One of our networks is also scored by its
reconstruction error, to show the effect of the scale. `Auto` contains an
`AutoencoderScale` with the same seed, so its fit also gives the results of that
detector. With `--json`, results are stored seed by seed, and a new run
continues from them. `--page` writes the tables of `docs/studies/outliers.md`
from `docs/results/outliers.json` and `docs/results/outliers_unseen.json`.

The settings of `Auto` were chosen with labels only on `--sets generated`. The
defaults of `PCAScale` and `AutoencoderScale` were chosen on the ODDS sets.
`--sets sklearn` takes sets that come with scikit-learn: the digits with one of
the ten classes cut to 30 rows as outliers, and breast cancer with 20 malignant
cases; `--sets unseen` scikit-learn's wines and irises, each class in turn cut
to 10 rows as outliers.
"""

import argparse
import importlib
import json
import os
import pathlib
import time
import warnings

import generated_tables
import numpy as np
import page_tables
import paired
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

BY_ERROR = "reconstruction error"
SHALLOW = "Auto without its deep part"
SEEDS = 5
MEASURED = ("seeds", "auc", "aupr", "seconds")
OURS = ("Auto", "PCAScale", "AutoencoderScale")
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


def made_sets():
    """Generated tables of every kind."""
    for seed in range(3):
        for kind in generated_tables.KINDS:
            x, y = generated_tables.make_table(kind, 1000 + seed)
            yield f"{kind} {seed}", x, y


def hard_sets():
    """Generated tables of every harder shape and kind."""
    for shape in generated_tables.SHAPES:
        for kind in generated_tables.KINDS:
            x, y = generated_tables.make_table(kind, 1000, shape)
            yield f"{shape} {kind}", x, y


SETS = {
    "odds": odds_sets,
    "sklearn": sklearn_sets,
    "unseen": unseen_sets,
    "generated": made_sets,
    "hard": hard_sets,
}


def make(name, seed):
    """A detector at its defaults."""
    if name in OURS or name == SHALLOW:
        from keras_likelihood import outliers

        if name == SHALLOW:
            return outliers.AutoDetector(random_state=seed, steps=1)
        return getattr(outliers, name)(random_state=seed)
    module = importlib.import_module(f"pyod.models.{PEERS[name]}")
    options = {}
    if name in RANDOM:
        options["random_state"] = seed
    if name in ("AutoEncoder", "VAE"):
        options["verbose"] = 0
    return getattr(module, name)(**options)


def measure(name, x, y, seeds):
    """AUC, AUPR and seconds by what is scored, lists over the seeds."""
    found = {}
    for seed in seeds:
        np.random.seed(seed)
        detector = make(name, seed)
        started = time.perf_counter()
        try:
            detector.fit(x)
        except ValueError as error:
            # CBLOF of PyOD finds no clusters that it accepts for some seeds.
            print(f"{name}, seed {seed}: {error}", flush=True)
            continue
        seconds = time.perf_counter() - started
        for title, score in scores_of(name, detector, x).items():
            row = found.setdefault(title, {key: [] for key in MEASURED})
            row["seeds"].append(seed)
            row["auc"].append(round(roc_auc_score(y, score), 5))
            row["aupr"].append(round(average_precision_score(y, score), 5))
            row["seconds"].append(round(seconds, 2))
        if name in OURS:
            import keras

            keras.backend.clear_session()
    return found


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


def run(names, sets, seeds, path):
    """Results by detector and set; seeds in the file are not run again."""
    results = {}
    if path and path.exists():
        results = json.loads(path.read_text())
    for name in names:
        drawn = seeds if name in OURS or name in RANDOM else 1
        for key, x, y in sets:
            known = list(results.get(name, {}).get(key, {}).get("seeds", ()))
            if len(known) >= drawn:
                continue
            z = StandardScaler().fit_transform(x)
            # A seed with which a detector fails is replaced by a later one.
            for seed in range(2 * drawn):
                if seed in known or len(known) >= drawn:
                    continue
                for title, row in measure(name, z, y, [seed]).items():
                    known += row["seeds"] if title == name else []
                    merge(results.setdefault(title, {}), key, row)
                    print(
                        f"{title:18}{key:14}{seed:3}{row['auc'][0]:7.3f}"
                        f"{row['seconds'][0]:8.1f} s",
                        flush=True,
                    )
                if path:
                    path.write_text(json.dumps(results))
    return results


def merge(rows, key, new):
    """Puts new seeds behind those of a set that are known."""
    known = rows.setdefault(key, {name: [] for name in MEASURED})
    for place, seed in enumerate(new["seeds"]):
        if seed not in known["seeds"]:
            for name in MEASURED:
                known[name].append(new[name][place])


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


def ranks(table):
    """Mean ranks over the sets, 1 for the best, and the least difference
    of two that is significant at 5 % by Nemenyi's test."""
    mean, _, least = paired.mean_ranks(table)
    return mean, least


def rank_table(results):
    """Markdown: ranks, medians and means, the best mean rank first."""
    columns, notes = {}, []
    for key, title in (("auc", "AUC"), ("aupr", "AUPR")):
        table, names = values(results, key)
        mean, p, least = paired.mean_ranks(table)
        notes.append(
            f"{title}: {len(names)} detectors, critical difference of mean "
            f"ranks {least:.1f} (Friedman p = {p:.0e})."
        )
        middle = np.median(table, axis=1)
        numbers = zip(mean, middle, table.mean(axis=1), strict=True)
        columns[key] = dict(zip(names, numbers, strict=True))
    lines = [
        "| detector | seeds | rank by AUC | median | mean "
        "| rank by AUPR | median | mean |",
        "|---|" + "---:|" * 7,
    ]
    for name in sorted(columns["auc"], key=lambda n: columns["auc"][n][0]):
        seeds = min(len(row["auc"]) for row in results[name].values())
        cells = [f"{seeds}"]
        for key in columns:
            row = columns[key].get(name)
            cells += (
                [f"{row[0]:.1f}", f"{row[1]:.3f}", f"{row[2]:.3f}"]
                if row
                else ["–"] * 3
            )
        title = f"`{name}`" if name in OURS else name
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *notes])


def seeds_line(results):
    """The numbers of seeds of random detectors, and missing AUPR."""
    few = [
        f"{name} on `{key}` ({len(row['auc'])})"
        for name in (*OURS, *RANDOM)
        for key, row in results[name].items()
        if len(row["auc"]) < SEEDS
    ]
    line = f"Random detectors have {SEEDS} seeds on every set"
    line += ", except " + ", ".join(few) if few else ""
    for name, rows in results.items():
        bare = [f"`{key}`" for key, row in rows.items() if not row["aupr"]]
        if bare:
            line += f". {name} has no AUPR on {', '.join(bare)}: these runs "
            line += "are from a version that stored only the AUC"
    return f"{line}."


def beside_peers(results):
    """Markdown: mean rank of each of our detectors among the peers."""
    lines = ["| detector | AUC | first peer | AUPR | first peer |"]
    lines.append("|---|---:|---:|---:|---:|")
    for name in [*OURS, SHALLOW]:
        alone = {n: results[n] for n in (name, *PEERS) if n in results}
        cells = []
        for key in ("auc", "aupr"):
            table, names = values(alone, key)
            if name not in names:
                cells += ["–", "–"]
                continue
            found = dict(zip(names, ranks(table)[0], strict=True))
            mine = found.pop(name)
            first = min(found, key=found.get)
            cells += [f"{mine:.1f}", f"{first} {found[first]:.1f}"]
        title = f"`{name}`" if name in OURS else name
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def words(results, unseen):
    """What the page says of mean ranks, by name."""
    rank = dict(zip(*reversed(_ranked(results)), strict=True))
    mine, error = "AutoencoderScale", f"AutoencoderScale, {BY_ERROR}"
    apart, names = _ranked(unseen)
    order = [names[i] for i in np.argsort(apart, kind="stable")]
    place = {name: order.index(name) + 1 for name in OURS}
    return {
        "scale": f"`{mine}` has a mean rank of {rank[mine]:.1f}. The same "
        f"network scored by its\nreconstruction error has {rank[error]:.1f}.",
        "places": "By mean rank of the AUC, `Auto` is in place "
        f"{place['Auto']}, "
        f"`PCAScale` in place\n{place['PCAScale']} and `AutoencoderScale` in "
        f"place {place[mine]} of {len(order)}; the first is {order[0]}.",
    }


def _ranked(results):
    table, names = values(results, "auc")
    return ranks(table)[0], names


def stored():
    """Results on the ODDS sets and on those of `--sets unseen`."""
    names = ("outliers.json", "outliers_unseen.json")
    return [json.loads((page_tables.RESULTS / n).read_text()) for n in names]


def tables(results, unseen):
    """All tables of the page, by name."""
    return {
        "ranks": rank_table(results),
        "seeds": seeds_line(results),
        "peers": beside_peers(results),
        "unseen": rank_table(unseen),
        **words(results, unseen),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", choices=SETS, default="odds")
    parser.add_argument("--only", nargs="+", default=[*OURS, SHALLOW, *PEERS])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument(
        "--json", type=pathlib.Path, help="results, continued where it exists"
    )
    parser.add_argument("--page", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    if args.page:
        page_tables.fill("studies/outliers", tables(*stored()))
        return
    sets = list(SETS[args.sets]())
    print(rank_table(run(args.only, sets, args.seeds, args.json)))


if __name__ == "__main__":
    main()
