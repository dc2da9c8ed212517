"""Learned regularization against searched regularization.

The data have 500 examples and 500 inputs. The weights are uniform on [1, 2] for
a share of the inputs and zero elsewhere, and the noise has standard deviation
1. The script prints the mean squared error of the weights, its ratio to a
reference, and the seconds of one fit, including compilation. The reference of a
family is its oracle: the best strength for the true weights. The reference of
the others is least squares on the true support, which is not known in practice.

    python benchmarks/adaptive_regularization.py
    python benchmarks/adaptive_regularization.py --seeds 1 --sparsities 0.1
    python benchmarks/adaptive_regularization.py --json errors.json

With `--json`, the errors of every seed are stored in this file, and a new run
continues from it.
"""

import argparse
import functools
import json
import pathlib
import time
import warnings

import keras
import numpy as np
from paper.literal import Repeated
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

import keras_likelihood as kl
from keras_likelihood import regularizers

EXAMPLES, DIMENSIONS, NOISE = 500, 500, 1.0
# PyTorch runs one step at a time.
STEPS_PER_CALL = 1 if keras.backend.backend() == "torch" else 5


def make_study(seed, sparsity):
    """Inputs, targets and true weights; `sparsity` is the share not zero."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((EXAMPLES, DIMENSIONS))
    weights = rng.uniform(1, 2, DIMENSIONS)
    on = rng.permutation(DIMENSIONS) < round(sparsity * DIMENSIONS)
    weights = weights * on
    return x, x @ weights + NOISE * rng.standard_normal(EXAMPLES), weights


def fit_keras(regularizer, x, y, *, learned, steps, learning_rate=0.05):
    """A linear Keras model; `learned` says whether the noise is learned."""
    options = {} if learned else {"loss": "mse", "noise": NOISE}
    inputs = keras.Input((x.shape[1],))
    outputs = keras.layers.Dense(
        1,
        use_bias=False,
        kernel_regularizer=regularizer(num_examples=len(x), **options),
    )(inputs)
    decay = keras.optimizers.schedules.CosineDecay(learning_rate, steps)
    model_class = kl.LikelihoodModel if learned else keras.Model
    model = model_class(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99),
        loss=kl.losses.NormalLoss() if learned else "mse",
        steps_per_execution=STEPS_PER_CALL,
    )
    data = Repeated(x.astype("float32"), y.astype("float32")[:, None], steps)
    model.fit(data, verbose=0)
    return keras.ops.convert_to_numpy(model.layers[-1].kernel)[:, 0]


def fit_sklearn(estimator, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(x, y).coef_


def least_squares_on_support(x, y, weights):
    found = np.zeros_like(weights)
    on = weights != 0
    found[on] = np.linalg.lstsq(x[:, on], y, rcond=None)[0]
    return found


def oracle(path, weights):
    """The solution on a path `(dimensions, strengths)` nearest the truth."""
    error = np.mean((path - weights[:, None]) ** 2, axis=0)
    return path[:, np.argmin(error)]


def ridge_path(x, y):
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    strengths = np.geomspace(1e-2, 1e2, 200)
    shrunk = s[:, None] / (s[:, None] ** 2 + strengths)
    return vt.T @ (shrunk * (u.T @ y)[:, None])


def lasso_path(x, y):
    strengths = np.geomspace(0.5, 5e-4, 80)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return linear_model.lasso_path(
            x, y, alphas=strengths, max_iter=20_000, tol=1e-5
        )[1]


def searched(dense):
    """The methods that search, by name: functions of `(x, y)`."""
    if dense:
        grid = np.geomspace(1e-2, 1e2, 60)
        estimators = {
            "RidgeCV": linear_model.RidgeCV(grid, fit_intercept=False)
        }
    else:
        estimators = {
            "LassoCV": linear_model.LassoCV(fit_intercept=False, cv=5),
            "LassoLarsIC": linear_model.LassoLarsIC(
                fit_intercept=False, noise_variance=NOISE**2
            ),
            "ARDRegression": linear_model.ARDRegression(fit_intercept=False),
        }
    return {
        name: functools.partial(fit_sklearn, estimator)
        for name, estimator in estimators.items()
    }


def adaptive(dense, steps):
    """The learned regularizers, by name: functions of `(x, y)`."""
    names = ["DRidge"] if dense else ["DLasso", "MultiLasso", "MultiRidge"]
    methods = {}
    for name in names:
        regularizer = getattr(regularizers, name)
        for learned, loss in ((True, "NormalLoss"), (False, "mse")):
            methods[f"{name}, {loss}"] = functools.partial(
                fit_keras, regularizer, learned=learned, steps=steps
            )
        if name in ("DLasso", "MultiLasso"):
            joint = functools.partial(regularizer, objective="joint")
            methods[f"{name}, joint"] = functools.partial(
                fit_keras, joint, learned=True, steps=steps
            )
    return methods


def measure(sparsity, seed, steps, skip):
    """Error and seconds by method, and errors of the references."""
    dense = sparsity == 1
    methods = {**searched(dense), **adaptive(dense, steps)}
    x, y, weights = make_study(seed, sparsity)
    path = ridge_path(x, y) if dense else lasso_path(x, y)

    def error(found):
        return float(np.mean((found - weights) ** 2))

    found = {
        "oracle": error(oracle(path, weights)),
        "support": error(least_squares_on_support(x, y, weights)),
        "methods": {},
    }
    for name, method in methods.items():
        if name in skip:
            continue
        keras.utils.set_random_seed(seed)
        start = time.perf_counter()
        weights_found = method(x, y)
        seconds = time.perf_counter() - start
        found["methods"][name] = [error(weights_found), seconds]
        keras.backend.clear_session()
    return found


def measure_all(sparsity, seeds, steps, skip, path):
    """What was measured, by seed; seeds in the file are not run again."""
    kept = json.loads(path.read_text()) if path and path.exists() else {}
    found = kept.setdefault(str(sparsity), {})
    for seed in map(str, seeds):
        if seed not in found:
            found[seed] = measure(sparsity, int(seed), steps, skip)
            if path:
                path.write_text(json.dumps(kept, indent=1) + "\n")
    return [found[str(seed)] for seed in seeds]


def report(sparsity, seeds):
    best = np.mean([seed["oracle"] for seed in seeds])
    limit = np.mean([seed["support"] for seed in seeds])
    family = "ridge" if sparsity == 1 else "lasso"
    print(f"\n{sparsity:.0%} of the weights not zero")
    print(f"{'':26}{'MSE':>10}{'/ oracle':>10}{'/ limit':>10}{'seconds':>9}")
    print(f"{f'{family} oracle':26}{best:10.5f}{1:10.2f}{best / limit:10.2f}")
    if sparsity < 1:
        print(
            f"{'least squares, support':26}{limit:10.5f}"
            f"{limit / best:10.2f}{1:10.2f}"
        )
    for name in seeds[0]["methods"]:
        errors, seconds = zip(*(s["methods"][name] for s in seeds), strict=True)
        error = np.mean(errors)
        print(
            f"{name:26}{error:10.5f}{error / best:10.2f}"
            f"{error / limit:10.2f}{np.median(seconds):9.2f}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument(
        "--sparsities",
        type=float,
        nargs="+",
        default=[0.05, 0.1, 0.2, 0.5, 1.0],
        help="shares of weights that are not zero; 1 is the ridge study",
    )
    parser.add_argument(
        "--skip", nargs="+", default=[], help="names of methods to leave out"
    )
    parser.add_argument(
        "--json", type=pathlib.Path, help="errors, continued where it exists"
    )
    arguments = parser.parse_args()
    first = arguments.first_seed
    seeds = range(first, first + arguments.seeds)
    print(f"backend {keras.backend.backend()}, seeds {seeds}")
    for sparsity in arguments.sparsities:
        found = measure_all(
            sparsity, seeds, arguments.steps, arguments.skip, arguments.json
        )
        report(sparsity, found)


if __name__ == "__main__":
    main()
