"""PCA+S and AE+S on the ODDS sets (Table 3, Figure 6).

    KERAS_BACKEND=jax python benchmarks/paper/outliers.py

A linear (PCA+S) and a deep (AE+S) auto-encoder under a normal likelihood with
one predicted scale for each row, which is the score. As in the paper: columns
are standardised, Adam at 5e-4, 4,000 steps, a dropout of 20 % in front of the
code. The paper does not give the sizes, so all combinations in `SETTINGS` are
trained, with batches of 128 rows and hidden layers of 64 ReLU units for AE+S.
The peers are those of `benchmarks/outliers.py`. `unseen` trains on a random
half of the rows and scores the other half.
"""

import itertools
import json

import keras
import numpy as np
from get_data import folder
from recipe import POSITIVE, Batches, Dense, train
from results import FOLDER, WIDTH, parallel, parser, pyplot, record
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

RATE, STEPS, ROWS = 5e-4, 4000, 128
NAMES = ("PCA+S", "AE+S")
SETTINGS = {
    f"{head} scale, code {share}": (head, share)
    for head, share in itertools.product(
        ("linear", "10 units", "64 units"), ("1/2", "1/4")
    )
}
"""Hidden units of the scale, and units of the code by columns."""
PEERS = """OCSVM IForest CBLOF AutoEncoder MCD HBOS KNN COPOD VAE PCA ABOD
FeatureBagging LOF""".split()


def branch(name, inputs, head, share):
    """Reconstruction and scale of each row."""
    columns, deep = inputs.shape[-1], name == "AE+S"
    h = Dense(64, relu=True)(inputs) if deep else inputs
    size = -(-columns // (2 if share == "1/2" else 4))
    code = Dense(size)(keras.layers.Dropout(0.2)(h))
    h = Dense(64, relu=True)(code) if deep else code
    hidden = inputs
    if head != "linear":
        hidden = Dense(int(head.split()[0]), relu=True)(inputs)
    return Dense(columns)(h), POSITIVE(Dense(1)(hidden))


def scores(name, x, test, seeds, steps, settings):
    """The predicted scales of test rows, `(seeds, rows)` by setting."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    scaler = StandardScaler().fit(x)
    x, test = (scaler.transform(part).astype("float32") for part in (x, test))
    inputs = keras.Input(batch_shape=(seeds, None, x.shape[1]))
    # Names of outputs may not have slashes.
    outputs = {
        str(i): branch(name, inputs, *SETTINGS[s])
        for i, s in enumerate(settings)
    }
    batches = Batches(x, dict.fromkeys(outputs, x), steps, seeds, ROWS)
    model = train(inputs, outputs, batches, rate=RATE)
    result = model(np.broadcast_to(test, (seeds, *test.shape)))
    return {
        s: keras.ops.convert_to_numpy(result[str(i)][1])[:, :, 0]
        for i, s in enumerate(settings)
    }


def study(key, name, seeds, steps, unseen):
    """AUCs of each seed, by setting."""
    x, y = read(key)
    train, test = x, x
    if unseen:
        order = np.random.default_rng(0).permutation(len(x))
        order = order[np.argsort(y[order], kind="stable")]
        train, test, y = x[order[::2]], x[order[1::2]], y[order[1::2]]
    settings = list(SETTINGS)[2:3] if unseen else list(SETTINGS)
    return {
        setting: [round(float(roc_auc_score(y, one)), 5) for one in values]
        for setting, values in scores(
            name, train, test, seeds, steps, settings
        ).items()
    }


def read(key):
    """Rows and labels of a set; `made up` is for a smoke test."""
    if key == "made up":
        x = np.random.default_rng(0).normal(size=(60, 4))
        x[:6] *= 6
        return x, np.arange(60) < 6
    with np.load(folder() / "odds" / f"{key}.npz") as file:
        return file["X"].astype("float64"), file["y"]


def peers(sets):
    """Stored AUCs of the paper's other detectors on the sets."""
    path = FOLDER.parent / "results" / "outliers_odds.json"
    stored = json.loads(path.read_text())
    return {
        name: [float(np.mean(stored[name][key]["auc"])) for key in sets]
        for name in PEERS
    }


def draw(aucs):
    """Distribution of the AUC of each detector over the sets."""
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
        box.set_facecolor("C1" if name[:5] in ("PCA+S", "AE+S,") else "0.85")
    axis.set_yticks(range(1, len(order) + 1), order)
    axis.set(xlabel="ROC-AUC over the sets (higher is better)")
    return figure


def main():
    options = parser(__doc__).parse_args()
    seeds, steps, sets = 5, STEPS, ["made up"]
    if options.quick:
        seeds, steps = 1, 10
    else:
        paths = (folder() / "odds").glob("*.npz")
        sets = sorted(paths, key=lambda path: -path.stat().st_size)
        sets = [path.stem for path in sets]
    keys = list(itertools.product(sets, NAMES, (False, True)))
    # The largest sets begin first.
    tasks = [(key, name, seeds, steps, new) for key, name, new in keys]
    every = dict(zip(keys, parallel(study, tasks), strict=True))
    data = {"sets": sorted(sets), "seeds": seeds, "tables": {}}
    data["each_seed"] = {
        f"{name}{', unseen' * new}": {
            key: every[key, name, new] for key in data["sets"]
        }
        for name in NAMES
        for new in (False, True)
    }
    medians = {}
    for title, found in data["each_seed"].items():
        for setting in next(iter(found.values())):
            # The median over the sets for each seed, then its spread.
            table = np.array([found[key][setting] for key in data["sets"]])
            of_seeds = np.median(table, axis=0)
            medians[f"{title}, {setting}"] = [
                float(np.median(table.mean(axis=1))),
                float(of_seeds.min()),
                float(of_seeds.max()),
            ]
    data["tables"]["medians"] = {
        "columns": ["median AUC", "lowest seed", "highest seed"],
        "rows": medians,
    }
    aucs = {} if options.quick else peers(data["sets"])
    data["tables"]["peers"] = {
        "columns": ["median AUC"],
        "rows": {n: [float(np.median(a))] for n, a in aucs.items()},
    }
    for name in NAMES:
        best = max(
            (t for t in medians if t.startswith(name) and "unseen" not in t),
            key=lambda t: medians[t][0],
        )
        found = data["each_seed"][name]
        setting = best.split(", ", 1)[1]
        aucs[best] = [np.mean(found[key][setting]) for key in data["sets"]]
    record("outliers", data, {"auc": draw(aucs)}, quick=options.quick)


if __name__ == "__main__":
    main()
