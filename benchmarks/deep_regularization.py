"""A deep network that learns how strongly to regularize each layer.

Learned regularization, trained once, is compared with a grid search over fixed
L1 and L2 strengths on a validation set. Either each model of the grid gets as
many steps as the learned model ("full"), or all of them together do ("equal").
The best model of the grid is retrained on all training data, and these steps
are not counted.

    python benchmarks/deep_regularization.py
    python benchmarks/deep_regularization.py --quick
    export KERAS_LIKELIHOOD_DATA=data
    python benchmarks/deep_regularization.py --data autompg wine_red

Without names the diabetes set of scikit-learn is used; names are those of
`regression/NAME.npz` (keys `X`, `y`) in the folder `KERAS_LIKELIHOOD_DATA`.
"""

import argparse
import functools
import os
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import keras_likelihood as kl
from keras_likelihood import regularizers

# PyTorch runs one step at a time.
STEPS_PER_CALL = 1 if keras.backend.backend() == "torch" else 5
STRENGTHS = [1e-4, 1e-3, 1e-2]
LARGEST = 2000


class RandomBatches(keras.utils.PyDataset):
    """One epoch of `steps` batches, each drawn at random."""

    def __init__(self, x, y, steps, seed, size=256):
        super().__init__()
        self.data = x, y
        rng = np.random.default_rng(seed)
        size = min(len(x), size)
        self.rows = [rng.permutation(len(x))[:size] for _ in range(steps)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, step):
        return tuple(a[self.rows[step]] for a in self.data)


def load(name):
    """Inputs `(n, d)` and targets `(n, 1)`."""
    if name == "diabetes":
        x, y = load_diabetes(return_X_y=True)
    else:
        folder = os.environ.get("KERAS_LIKELIHOOD_DATA")
        if not folder:
            raise SystemExit(f"set KERAS_LIKELIHOOD_DATA to read {name}.npz")
        with np.load(Path(folder) / "regression" / f"{name}.npz") as data:
            x, y = data["X"], data["y"]
    keep = np.random.default_rng(0).permutation(len(x))[:LARGEST]
    return x[keep], y[keep, None]


def standardized(x, y, x_test, y_test):
    to_x = make_pipeline(SimpleImputer(), StandardScaler()).fit(x)
    to_y = StandardScaler().fit(y)
    pairs = (to_x, x), (to_y, y), (to_x, x_test), (to_y, y_test)
    return [t.transform(a).astype("float32") for t, a in pairs]


def fit(make_regularizer, x, y, steps, seed):
    """A network of two hidden layers, each weight with its regularizer."""
    keras.utils.set_random_seed(seed)
    inputs = hidden = keras.Input((x.shape[1],))
    for _ in range(2):
        hidden = keras.layers.Dense(
            50, activation="relu", kernel_regularizer=make_regularizer()
        )(hidden)
    outputs = keras.layers.Dense(1, kernel_regularizer=make_regularizer())(
        hidden
    )
    model = kl.LikelihoodModel(inputs, outputs)
    decay = keras.optimizers.schedules.CosineDecay(0.01, steps)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99),
        loss=kl.losses.NormalLoss(),
        steps_per_execution=STEPS_PER_CALL,
    )
    model.fit(RandomBatches(x, y, steps, seed), verbose=0)
    return model


def rmse(model, x, y):
    found = model.predict(x, batch_size=len(x), verbose=0)
    return float(np.sqrt(np.mean((found - y) ** 2)))


def fit_grid(x, y, steps, seed):
    """The member of the grid that does best on a fifth of the data."""
    x_fit, x_val, y_fit, y_val = train_test_split(
        x, y, test_size=0.2, random_state=seed
    )
    candidates = [
        functools.partial(r, s)
        for r in (keras.regularizers.L1, keras.regularizers.L2)
        for s in STRENGTHS
    ]
    scores = [
        rmse(fit(c, x_fit, y_fit, steps, seed), x_val, y_val)
        for c in candidates
    ]
    return candidates[int(np.argmin(scores))]


def compare(name, splits, steps):
    x_all, y_all = load(name)
    rows = {}
    for seed in range(splits):
        x, x_test, y, y_test = train_test_split(
            x_all, y_all, test_size=0.25, random_state=seed
        )
        x, y, x_test, y_test = standardized(x, y, x_test, y_test)
        methods = {"none": lambda: None}
        members = 2 * len(STRENGTHS)
        for label, share in (("equal", members), ("full", 1)):
            methods[f"grid of {members}, {label}"] = fit_grid(
                x, y, steps // share, seed
            )
        for cls in ("DRidge", "DLasso", "MultiRidge", "MultiLasso"):
            methods[cls] = functools.partial(
                getattr(regularizers, cls), num_examples=len(x)
            )
        for label, method in methods.items():
            model = fit(method, x, y, steps, seed)
            before = rmse(model, x_test, y_test)
            zeros = sum(regularizers.prune(model).values())
            after = rmse(model, x_test, y_test)
            rows.setdefault(label, []).append((before, after, zeros))
            keras.backend.clear_session()
    print(f"\n{name}: {len(x_all)} examples, {splits} splits")
    print(f"{'':20}{'test RMSE':>12}{'+-':>8}{'pruned':>10}{'zeros':>8}")
    for label, found in rows.items():
        errors, pruned, zeros = np.array(found).T
        spread = errors.std() / np.sqrt(len(errors))
        print(
            f"{label:20}{errors.mean():12.4f}{spread:8.4f}"
            f"{pruned.mean():10.4f}{zeros.mean():8.0f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["diabetes"])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    splits, steps = arguments.splits, arguments.steps
    if arguments.quick:
        splits, steps = 1, 400
    for name in arguments.data:
        compare(name, splits, steps)


if __name__ == "__main__":
    main()
