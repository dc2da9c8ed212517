"""PCA+S and AE+S on the ODDS sets, with the paper's settings.

    KERAS_BACKEND=jax python benchmarks/paper/literal_outliers.py
    python benchmarks/paper/literal_outliers.py --runs RUNS.jsonl

A linear (PCA+S) and a deep (AE+S) auto-encoder under a normal likelihood with
one predicted scale for each row, which is the score. The paper has
standardised columns, Adam at 5e-4, 4,000 steps and a dropout of 20 % in front
of the code. What it does not say is the same for all sets here: a code of half
as many units as columns, hidden layers of 64 ReLU units for AE+S, a scale from
one hidden layer of 10 ReLU units (as in the paper's regressors), and batches of
128 rows. The seeds are trained side by side.
"""

import pathlib

import keras
import numpy as np
from datasets import folder
from literal import POSITIVE, STEPS_PER_CALL, UNITS, Dense
from results import parser
from runs import Runs
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import keras_likelihood as kl

RATE, STEPS, ROWS = 5e-4, 4000, 128
NAMES = ("PCA+S", "AE+S")


class Batches(keras.utils.PyDataset):
    """Batches of random rows `(seeds, rows, columns)`, all full."""

    def __init__(self, x, steps, seeds):
        super().__init__()
        self.x, self.steps = x, steps
        self.orders = [self._order(seed) for seed in range(seeds)]

    def _order(self, seed):
        random = np.random.default_rng(seed)
        rounds = -(-self.steps * ROWS // len(self.x))
        parts = [random.permutation(len(self.x)) for _ in range(rounds)]
        return np.concatenate(parts)

    def __len__(self):
        return self.steps

    def __getitem__(self, step):
        part = slice(step * ROWS, (step + 1) * ROWS)
        rows = np.stack([self.x[order[part]] for order in self.orders])
        return rows, rows


def build(name, columns, seeds):
    """The auto-encoders: reconstruction and scale of each row."""
    inputs = keras.Input(batch_shape=(seeds, None, columns))
    deep = name == "AE+S"
    h = Dense(64, relu=True)(inputs) if deep else inputs
    code = Dense(-(-columns // 2))(keras.layers.Dropout(0.2)(h))
    h = Dense(64, relu=True)(code) if deep else code
    scale = POSITIVE(Dense(1)(Dense(UNITS, relu=True)(inputs)))
    return kl.LikelihoodModel(inputs, (Dense(columns)(h), scale))


def scores(name, x, seeds, steps):
    """The predicted scales of all rows, `(seeds, rows)`."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    x = StandardScaler().fit_transform(x).astype("float32")
    model = build(name, x.shape[1], seeds)
    model.compile(
        keras.optimizers.Adam(RATE),
        loss=kl.losses.NormalLoss(),
        steps_per_execution=min(STEPS_PER_CALL, steps),
    )
    model.fit(Batches(x, steps, seeds), shuffle=False, verbose=0)
    _, scale = model(np.broadcast_to(x, (seeds, *x.shape)))
    return keras.ops.convert_to_numpy(scale)[:, :, 0]


def sets():
    """Names, rows and labels of the sets, the small ones first."""
    paths = (folder() / "odds").glob("*.npz")
    for path in sorted(paths, key=lambda path: path.stat().st_size):
        with np.load(path) as file:
            yield path.stem, file["X"].astype("float64"), file["y"]


def made_up():
    """A set for a smoke test."""
    x = np.random.default_rng(0).normal(size=(60, 4))
    x[:5] *= 6
    return [("made up", x, np.arange(60) < 5)]


def main():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--runs", type=pathlib.Path)
    options = options.parse_args()
    seeds, steps = (1, 10) if options.quick else (options.seeds, STEPS)
    tables = made_up() if options.quick else list(sets())
    runs = Runs(options.runs)
    for key, x, y in tables:
        for name in NAMES:
            keys = {"detector": name, "set": key, "seeds": seeds}
            if not runs.find(**keys):
                found = scores(name, x, seeds, steps)
                aucs = [round(float(roc_auc_score(y, s)), 5) for s in found]
                runs.add(**keys, auc=aucs)
    every = {
        key: {
            name: runs.find(detector=name, set=key, seeds=seeds)["auc"]
            for name in NAMES
        }
        for key in sorted(key for key, _, _ in tables)
    }
    rows = {
        key: [np.mean(found[name]) for name in NAMES]
        for key, found in every.items()
    }
    data = {"sets": len(rows), "seeds": seeds, "each_seed": every}
    data["medians"] = dict(
        zip(NAMES, np.median(list(rows.values()), axis=0), strict=True)
    )
    data["tables"] = {"auc": {"columns": list(NAMES), "rows": rows}}
    runs.record("literal_outliers", data, quick=options.quick)


if __name__ == "__main__":
    main()
