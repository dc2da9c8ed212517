"""Learned regularization against searched, on real tables.

    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... \
        python benchmarks/regularization_tables.py --json linear.jsonl
    KERAS_BACKEND=jax KERAS_LIKELIHOOD_DATA=... \
        python benchmarks/regularization_tables.py --network --json mlp.jsonl

**Linear models** are fitted to five rows for each input (at least 30, at most
half of the table) and judged on at most 2000 others: the mean squared error,
or the log-loss of classes. D-Ridge is divided by the better of `RidgeCV` and
`BayesianRidge` (for classes by `LogisticRegressionCV`), D-LASSO by `LassoCV`
and Multi-LASSO by `ARDRegression`.

**Networks** of two hidden layers with 64 units are fitted to half of the table
(at most 1000 rows): once with D-Ridge on each kernel; once by AdamW at its
default; and nine times with an L2 penalty: eight strengths on 80 % of the rows,
and the one with the lowest NLL on the other 20 % again on all rows. All eight
are also evaluated on the test rows, because `HeldOut` trains with the same 80 %
of the rows.

Every seed is another split. Sets and seeds that are already in the file are
skipped.
"""

import argparse
import json
import os
import pathlib
import time

import keras
import numpy as np
from paper.literal import Repeated

import keras_likelihood as kl
from keras_likelihood import regularizers

LINEAR = (
    "autompg",
    "bank8FM",
    "cpu_act",
    "cpu_machine",
    "crime_norm",
    "fried",
    "kin8nm",
    "soil",
    "soil_resistivity",
    "wine_red",
    "digits",
    "breast_cancer",
)
NETWORKS = ("kin8nm", "crime_norm", "digits")
GRID = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
CLASSES = {"digits": 10, "breast_cancer": 2}


def load(name):
    """`(x, y)`; classes are whole numbers."""
    if name in CLASSES:
        from sklearn import datasets

        return getattr(datasets, f"load_{name}")(return_X_y=True)
    folder = pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"])
    with np.load(folder / "regression" / f"{name}.npz") as file:
        return file["X"].astype("float64"), file["y"].astype("float64")


def split(name, seed, rows):
    """Training and test rows, scaled by the first."""
    x, y = load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:rows], order[rows : rows + 2000]
    mean = np.nan_to_num(np.nanmean(x[train], 0))
    deviation = np.nan_to_num(np.nanstd(x[train], 0))
    x = np.where(np.isnan(x), mean, x) - mean
    x = np.clip(x / np.where(deviation > 0, deviation, 1), -10, 10)
    if name not in CLASSES:
        y = (y - y[train].mean()) / y[train].std()
    return x[train], y[train], x[test], y[test]


def loss_of(name):
    if name in CLASSES:
        return kl.losses.SoftmaxLoss(temperature=1.0)
    return kl.losses.NormalLoss()


def targets(name, y):
    return y if name in CLASSES else y.astype("float32")[:, None]


def fit_linear(regularizer, name, x, y, steps=2000):
    """A Keras model with a learned regularizer."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((x.shape[1],))
    outputs = keras.layers.Dense(
        CLASSES.get(name, 1),
        kernel_regularizer=regularizer(num_examples=len(x)),
    )(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    decay = keras.optimizers.schedules.CosineDecay(0.05, steps)
    model.compile(keras.optimizers.Adam(decay, beta_2=0.99), loss=loss_of(name))
    data = Repeated(x.astype("float32"), targets(name, y), steps)
    model.fit(data, verbose=0)
    return model


def judged(name, output, y):
    """Mean squared error of predictions, log-loss of logits."""
    if name not in CLASSES:
        return np.mean((output - y) ** 2)
    z = output - output.max(axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(len(y)), y])


def peers(name):
    from sklearn import linear_model

    if name in CLASSES:
        return {
            "LogisticRegressionCV": linear_model.LogisticRegressionCV(
                Cs=np.geomspace(1e-4, 1e2, 13),
                cv=3,
                scoring="neg_log_loss",
                max_iter=1000,
            )
        }
    return {
        "RidgeCV": linear_model.RidgeCV(np.geomspace(1e-1, 1e5, 60)),
        "BayesianRidge": linear_model.BayesianRidge(),
        "LassoCV": linear_model.LassoCV(cv=5),
        "ARD": linear_model.ARDRegression(),
    }


def measure_linear(name, seed):
    """Errors by method."""
    count, columns = load(name)[0].shape
    rows = min(max(5 * columns, 30), count // 2)
    x, y, new_x, new_y = split(name, seed, rows)
    found = {"rows": rows}
    for peer, estimator in peers(name).items():
        estimator.fit(x, y)
        if name in CLASSES:
            output = np.log(estimator.predict_proba(new_x) + 1e-30)
        else:
            output = estimator.predict(new_x)
        found[peer] = float(judged(name, output, new_y))
    ours = ["DRidge"]
    if name not in CLASSES:
        ours += ["DLasso", "MultiLasso"]
    for method in ours:
        model = fit_linear(getattr(regularizers, method), name, x, y)
        output = model.predict(new_x.astype("float32"), verbose=0)
        output = output if name in CLASSES else output[:, 0]
        found[method] = float(judged(name, output, new_y))
        keras.backend.clear_session()
    return found


def fit_network(method, name, x, y, seed, epochs, batch=50):
    """`(model, seconds)`.

    `method` is D-Ridge (by the evidence), HeldOut (D-Ridge by a fifth of the
    rows), AdamW or an L2 strength.
    """
    keras.utils.set_random_seed(seed)
    share = 0.2 if method == "HeldOut" else 0.0
    callbacks = [regularizers.LearnScales(held_out=share)] if share else []
    make = {
        "D-Ridge": lambda: regularizers.DRidge(num_examples=len(x)),
        "HeldOut": lambda: regularizers.DRidge(num_examples=0.8 * len(x)),
        "AdamW": lambda: None,
    }.get(method) or (lambda: keras.regularizers.L2(method))
    hidden = inputs = keras.Input((x.shape[1],))
    for _ in range(2):
        hidden = keras.layers.Dense(
            64,
            "relu",
            kernel_initializer="he_normal",
            kernel_regularizer=make(),
        )(hidden)
    outputs = keras.layers.Dense(
        CLASSES.get(name, 1), kernel_regularizer=make()
    )(hidden)
    model = kl.LikelihoodModel(inputs, outputs)
    # Whole batches alone: a rest would be compiled by itself.
    rows = len(x) // batch * batch
    steps = int((1 - share) * rows) // batch * epochs
    rate = keras.optimizers.schedules.CosineDecay(3e-3, steps)
    cls = "AdamW" if method == "AdamW" else "Adam"
    model.compile(getattr(keras.optimizers, cls)(rate), loss=loss_of(name))
    start = time.perf_counter()
    model.fit(
        x[:rows].astype("float32"),
        targets(name, y)[:rows],
        epochs=epochs,
        batch_size=batch,
        callbacks=callbacks,
        verbose=0,
    )
    return model, time.perf_counter() - start


def scores(model, name, x, y):
    """`{"nll", "error"}`: the error is a root mean square or a share."""
    law = model.predict_distribution(x.astype("float32"))
    nll = keras.ops.convert_to_numpy(law.nll(targets(name, y)))
    output = keras.ops.convert_to_numpy(law.prediction)
    if name in CLASSES:
        error = np.mean(output.argmax(axis=1) != y)
    else:
        error = np.sqrt(judged(name, output[:, 0], y))
    return {"nll": float(nll.mean()), "error": float(error)}


def measure_network(name, seed, epochs):
    """Scores by method, and the seconds of each."""
    count = len(load(name)[1])
    x, y, new_x, new_y = split(name, seed, min(count // 2, 1000))
    found = {"rows": len(x)}

    def run(label, method, rows):
        model, seconds = fit_network(method, name, *rows, seed, epochs)
        found[label] = {**scores(model, name, new_x, new_y), "seconds": seconds}
        keras.backend.clear_session()
        return model

    whole, cut = (x, y), len(x) * 4 // 5
    for label in ("D-Ridge", "HeldOut", "AdamW"):
        run(label, label, whole)
    losses = []
    for strength in GRID:
        model = run(f"80 %, {strength:g}", strength, (x[:cut], y[:cut]))
        losses.append(scores(model, name, x[cut:], y[cut:])["nll"])
    best = GRID[int(np.nanargmin(losses))]
    run("grid", best, whole)
    found["best"] = best
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", action="store_true")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=100, help="of networks")
    parser.add_argument("--json", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    done = set()
    if arguments.json.exists():
        lines = map(json.loads, arguments.json.read_text().splitlines())
        done = {(line["set"], line["seed"]) for line in lines}
    first = arguments.first_seed
    sets = arguments.sets or (NETWORKS if arguments.network else LINEAR)
    for seed in range(first, first + arguments.seeds):
        for name in sets:
            if (name, seed) in done:
                continue
            if arguments.network:
                found = measure_network(name, seed, arguments.epochs)
            else:
                found = measure_linear(name, seed)
            line = json.dumps({"set": name, "seed": seed, **found})
            print(line, flush=True)
            with arguments.json.open("a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
