"""D-Ridge, D-LASSO and Multi-LASSO by the paper's objective, at its size.

    KERAS_BACKEND=jax python benchmarks/paper/sparse_weights.py
    python benchmarks/paper/sparse_weights.py --runs RUNS.jsonl

500 examples of 500 normal inputs; the weights that are not zero are uniform on
[1, 2]. `joint` is the paper's: the likelihood of data and weights is minimised
with respect to weights, noise and scales together, by Adam at 1e-3 in 3,000
steps on all rows, with an exponential map of the scales. `ours` learns the
scales by this package's default. The rivals are LASSO with the strength from
cross-validation (scikit-learn's default strengths, and the whole path),
automatic relevance determination, the adaptive LASSO (Zou, 2006) with a pilot
of ridge regression, the best strength of the LASSO in hindsight, and least
squares on the true support. D-Ridge, with all weights not zero, is compared
with ridge regression.
"""

import functools
import pathlib
import warnings

import keras
import numpy as np
from literal import RATE, STEPS_PER_CALL, Repeated
from results import mean_and_error, parser
from runs import Runs
from sklearn import linear_model

import keras_likelihood as kl
from keras_likelihood import regularizers

FIRST_SEED = 100
NOISES, SHARES = (0.01, 0.1, 1.0), (0.05, 0.2)
STRENGTHS = np.geomspace(1e-5, 1e3, 100)
"""Of ridge regression."""
KNOWN = ("best strength in hindsight", "true support")
"""These know the true weights, so they are not rivals."""


def make_study(size, share, noise, seed):
    """Inputs, targets and weights."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((size, size))
    weights = rng.uniform(1, 2, size)
    weights = weights * (rng.permutation(size) < round(share * size))
    return x, x @ weights + noise * rng.standard_normal(size), weights


def learn(regularizer, x, y, *, objective, steps):
    """Weights of a linear Keras model with a learned prior."""
    keras.utils.clear_session()
    prior = regularizer(num_examples=len(x), objective=objective)
    inputs = keras.Input((x.shape[1],))
    layer = keras.layers.Dense(1, use_bias=False, kernel_regularizer=prior)
    model = kl.LikelihoodModel(inputs, layer(inputs))
    x, y = x.astype("float32"), y.astype("float32")[:, None]
    rate, options = RATE, {}
    if objective != "joint":
        rate = keras.optimizers.schedules.CosineDecay(0.05, steps)
        options = {"beta_2": 0.99}
    model.compile(
        keras.optimizers.Adam(rate, **options),
        loss=kl.losses.NormalLoss(),
        steps_per_execution=min(STEPS_PER_CALL, 5, steps),
    )
    model.fit(Repeated(x, y, steps), verbose=0)
    return keras.ops.convert_to_numpy(layer.kernel)[:, 0]


def lasso_cv(x, y):
    return linear_model.LassoCV(fit_intercept=False, cv=5).fit(x, y).coef_


def lasso_lars_cv(x, y):
    """Cross-validation on the whole path, without a least strength."""
    found = linear_model.LassoLarsCV(fit_intercept=False, cv=5, max_iter=2000)
    return found.fit(x, y).coef_


def ridge_cv(x, y):
    return linear_model.RidgeCV(STRENGTHS, fit_intercept=False).fit(x, y).coef_


def adaptive_lasso(x, y):
    """LASSO with a strength for each weight, from a first estimate."""
    size = np.abs(ridge_cv(x, y))
    return size * lasso_lars_cv(x * size, y)


def ridge_path(x, y):
    """Weights `(inputs, strengths)` of ridge regression."""
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    shrunk = s[:, None] / (s[:, None] ** 2 + STRENGTHS)
    return vt.T @ (shrunk * (u.T @ y)[:, None])


def in_hindsight(x, y, weights):
    if weights.all():
        path = ridge_path(x, y)
    else:
        _, _, path = linear_model.lars_path(x, y, method="lasso", max_iter=2000)
    return path[:, np.mean((path - weights[:, None]) ** 2, axis=0).argmin()]


def on_support(x, y, weights):
    found = np.zeros_like(weights)
    on = weights != 0
    found[on] = np.linalg.lstsq(x[:, on], y, rcond=None)[0]
    return found


def learned(names, steps):
    """The paper's objective and ours of each regularizer, by name."""
    return {
        f"{name}, {title}": functools.partial(
            learn, regularizer, objective=objective, steps=steps
        )
        for name, regularizer in names.items()
        for title, objective in (("joint", "joint"), ("ours", "evidence"))
    }


def methods(share, steps):
    """Functions of inputs and targets, by name."""
    if share == 1:
        ours = learned({"D-Ridge": regularizers.DRidge}, steps)
        return {"RidgeCV": ridge_cv, **ours}
    lassos = {
        "D-LASSO": regularizers.DLasso,
        "Multi-LASSO": regularizers.MultiLasso,
    }
    return {
        "LassoCV": lasso_cv,
        "LassoLarsCV": lasso_lars_cv,
        "ARDRegression": lambda x, y: (
            linear_model.ARDRegression(fit_intercept=False).fit(x, y).coef_
        ),
        "adaptive LASSO": adaptive_lasso,
        **learned(lassos, steps),
    }


def study(size, share, noise, seed, steps):
    """Mean squared errors of the weights, by method."""
    x, y, weights = make_study(size, share, noise, seed)
    found = {name: fit(x, y) for name, fit in methods(share, steps).items()}
    found[KNOWN[0]] = in_hindsight(x, y, weights)
    if share < 1:
        found[KNOWN[1]] = on_support(x, y, weights)
    return {n: float(np.mean((w - weights) ** 2)) for n, w in found.items()}


def collect(runs, cells, seeds):
    """Errors by method, `(seeds, cells)`."""
    found = [
        [
            runs.find(noise=noise, share=share, seed=FIRST_SEED + i)["errors"]
            for noise, share in cells
        ]
        for i in range(seeds)
    ]
    return {
        name: [[errors[name] for errors in row] for row in found]
        for name in found[0][0]
    }


def main():
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--runs", type=pathlib.Path)
    options.add_argument("--noises", nargs="+", type=float, default=NOISES)
    options.add_argument("--shares", nargs="+", type=float, default=SHARES)
    options = options.parse_args()
    size, steps, seeds = 500, 3000, options.seeds
    noises, shares = options.noises, options.shares
    if options.quick:
        size, steps, seeds, noises, shares = 20, 10, 1, (0.1,), (0.2,)
    runs = Runs(options.runs)
    cells = [(noise, share) for share in (*shares, 1) for noise in noises]
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for noise, share in cells:
            keys = {"noise": noise, "share": share, "seed": seed}
            if not runs.find(**keys):
                keras.utils.set_random_seed(seed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = study(size, share, noise, seed, steps)
                runs.add(**keys, errors=found)
    data = {"size": size, "seeds": seeds, "known": list(KNOWN)}
    data |= {"each_seed": {}, "tables": {}}
    for key, chosen in (
        ("lasso", [cell for cell in cells if cell[1] < 1]),
        ("ridge", [cell for cell in cells if cell[1] == 1]),
    ):
        every = collect(runs, chosen, seeds)
        columns = [f"noise {n:g}, {s:.0%} not zero" for n, s in chosen]
        table = {"columns": columns, **mean_and_error(every), "digits": 6}
        data["each_seed"][key], data["tables"][key] = every, table
        unit = table["rows"][KNOWN[1] if key == "lasso" else KNOWN[0]]
        data["tables"][f"{key}_relative"] = {
            "columns": columns,
            "rows": {
                name: [a / b for a, b in zip(row, unit, strict=True)]
                for name, row in table["rows"].items()
            },
            "digits": 1,
        }
    runs.record("sparse_weights", data, quick=options.quick)


if __name__ == "__main__":
    main()
