"""Learned strengths of linear models against cross-validation and evidence.

    KERAS_BACKEND=torch python benchmarks/adaptive_regularization.py

Each set has three seeds, and each method its test score (lower is better):

- digits: 300 rows of scikit-learn's digits, ten classes; log-loss of the rest;
- logistic: 200 rows of 50 independent inputs; log-loss of 4,000 new rows;
- AR(.9): 200 rows of 200 neighbours with correlation .9, as much noise as
  signal; squared error of the predicted mean, relative to that of zero;
- sparse: 100 rows of 50 or 200 inputs, 10 with weights in [1, 2], noise 2;
  root mean square error of 2,000 new rows.

Our models train with Keras: `fit` chooses the strength by approximate
leave-one-out.
"""

import json
import pathlib
import time
import warnings

import keras
import numpy as np
from scipy.special import expit, softmax
from sklearn import linear_model
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

import keras_likelihood as kl

FIRST_SEED, SEEDS, EPOCHS = 41, 3, 100
DOCS = pathlib.Path(__file__).parents[1] / "docs"
RESULTS = DOCS / "results" / "adaptive_regularization.json"


def digits(rng):
    x, y = load_digits(return_X_y=True)
    order = rng.permutation(len(x))
    x = (x - x.mean(0)) / (x.std(0) + 1e-6)
    return x[order], y[order], 300


def logistic(rng):
    x = rng.standard_normal((4200, 50))
    weights = rng.standard_normal(50) * 2 / 50**0.5
    y = rng.random(len(x)) < 1 / (1 + np.exp(-x @ weights))
    return x, y.astype(int), 200


def neighbours(rng):
    x = rng.standard_normal((2200, 200))
    for j in range(1, 200):
        x[:, j] = 0.9 * x[:, j - 1] + 0.19**0.5 * x[:, j]
    mean = x @ rng.standard_normal(200)
    y = mean + mean.std() * rng.standard_normal(len(x))
    # The rows for evaluation have no noise.
    y[200:] = mean[200:]
    return x, y, 200


def sparse(columns):
    def make(rng):
        x, weights = rng.standard_normal((2100, columns)), np.zeros(columns)
        weights[rng.permutation(columns)[:10]] = rng.uniform(1, 2, 10)
        return x, x @ weights + 2 * rng.standard_normal(len(x)), 100

    return make


CV = linear_model.LogisticRegressionCV(
    Cs=10, scoring="neg_log_loss", max_iter=300
)
SETS = {
    "digits": (digits, {"cross-validation": CV}, ["DRidge"]),
    "logistic": (logistic, {"cross-validation": CV}, ["DRidge"]),
    "AR(.9)": (
        neighbours,
        {
            "cross-validation": linear_model.RidgeCV(
                np.geomspace(0.1, 1e5, 60)
            ),
            "BayesianRidge": linear_model.BayesianRidge(),
        },
        ["DRidge"],
    ),
}
for columns in (50, 200):
    peers = {"cross-validation": linear_model.LassoCV(cv=5)}
    ours = ["DLasso", "MultiLasso"]
    SETS[f"sparse, {columns} inputs"] = sparse(columns), peers, ours


def fit_keras(name, x, y, kind):
    """Class scores or predictions as a function of inputs."""
    shift, scale = (0.0, 1.0) if kind else (y.mean(), y.std())
    outputs = len(np.unique(y)) if kind == "softmax" else 1
    inputs = keras.Input((x.shape[1],))
    prior = getattr(kl.regularizers, name)()
    dense = keras.layers.Dense(outputs, kernel_regularizer=prior)
    model = kl.LikelihoodModel(inputs, dense(inputs))
    options = {"temperature": 1.0} if kind else {}
    decay = keras.optimizers.schedules.CosineDecay(0.01, EPOCHS)
    model.compile(
        keras.optimizers.Adam(decay),
        loss=kl.losses.LikelihoodLoss(kind or "normal", **options),
    )
    target = (y - shift) / scale
    target = y if kind == "softmax" else target[:, None].astype("float32")
    x = x.astype("float32")
    model.fit(x, target, batch_size=len(x), epochs=EPOCHS, verbose=0)
    return lambda x: (
        shift
        + scale * model.predict(x.astype("float32"), batch_size=4096, verbose=0)
    )


def score(predicted, y, kind):
    if kind == "softmax":
        return log_loss(y, softmax(predicted, axis=1))
    if kind == "bernoulli":
        return log_loss(y, expit(predicted[:, 0]))
    return np.mean((np.ravel(predicted) - y) ** 2)


def measure(name, seed):
    """Scores and seconds of processor time by method."""
    make, peers, ours = SETS[name]
    x, y, rows = make(np.random.default_rng(seed))
    kind = {"digits": "softmax", "logistic": "bernoulli"}.get(name)
    results = {}
    for label, estimator in peers.items():
        begin = time.process_time()
        estimator.fit(x[:rows], y[:rows])
        seconds = time.process_time() - begin
        if kind:
            value = log_loss(y[rows:], estimator.predict_proba(x[rows:]))
        else:
            value = score(estimator.predict(x[rows:]), y[rows:], kind)
        results[label] = value, seconds
    for label in ours:
        keras.utils.set_random_seed(seed)
        begin = time.process_time()
        predict = fit_keras(label, x[:rows], y[:rows], kind)
        seconds = time.process_time() - begin
        results[label] = score(predict(x[rows:]), y[rows:], kind), seconds
        keras.backend.clear_session()
    unit = np.mean(y[rows:] ** 2) if name == "AR(.9)" else 1
    power = 1 if kind or name == "AR(.9)" else 0.5
    return {
        label: (round(float(value / unit) ** power, 4), round(seconds, 2))
        for label, (value, seconds) in results.items()
    }


def main():
    warnings.simplefilter("ignore")
    results = {}
    for name in SETS:
        runs = [measure(name, FIRST_SEED + seed) for seed in range(SEEDS)]
        results[name] = {}
        for method in runs[0]:
            scores, seconds = zip(*(run[method] for run in runs), strict=True)
            results[name][method] = {"scores": scores, "seconds": seconds}
            error = np.std(scores, ddof=1) / SEEDS**0.5
            values = " ".join(f"{value:.3f}" for value in scores)
            print(
                f"{name:20}{method:18}{np.mean(scores):.3f} +- {error:.3f}  "
                f"{np.median(seconds):5.1f} s  ({values})",
                flush=True,
            )
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
