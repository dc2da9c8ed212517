"""D-Ridge, D-LASSO and Multi-LASSO by the paper's objective (Figure 7).

    KERAS_BACKEND=jax python benchmarks/paper/priors.py

500 examples of 500 normal inputs; the weights that are not zero are uniform on
[1, 2]. The likelihood of data and weights is minimised with respect to weights,
noise and prior scales together, with an exponential map of the scales, by Adam
at 1e-3 on all rows. The paper does not give the number of steps of this figure.
The 3,000 of its regressors move a weight to 2 at most, so it is 20,000 here,
and the error is recorded over the steps. `best fixed` is the best strength of
ridge regression or of the LASSO in hindsight, `true support` least squares on
the weights that are not zero. `LassoCV`, `ARDRegression` and `adaptive LASSO`
(Zou, 2006) are not in the paper.
"""

import warnings

import keras
import numpy as np
from recipe import RATE, STEPS_PER_CALL, Repeated
from results import WIDTH, mean_and_error, parallel, parser, pyplot, record
from sklearn import linear_model

import keras_likelihood as kl
from keras_likelihood import regularizers

NOISES, SHARES = (0.01, 0.1, 1.0), (0.05, 0.2)
STRENGTHS = np.geomspace(1e-5, 1e3, 100)
"""Of ridge regression."""
POINTS = 20


def make_study(size, share, noise, seed):
    """Inputs, targets and weights."""
    rng = np.random.default_rng(100 + seed)
    x = rng.standard_normal((size, size))
    weights = rng.uniform(1, 2, size)
    weights = weights * (rng.permutation(size) < round(share * size))
    return x, x @ weights + noise * rng.standard_normal(size), weights


def learn(regularizer, x, y, steps):
    """The weights of a linear model with a learned prior, over the steps."""
    keras.utils.clear_session()
    prior = regularizer(num_examples=len(x), objective="joint")
    inputs = keras.Input((x.shape[1],))
    layer = keras.layers.Dense(1, use_bias=False, kernel_regularizer=prior)
    model = kl.LikelihoodModel(inputs, layer(inputs))
    steps //= POINTS
    model.compile(
        keras.optimizers.Adam(RATE),
        loss=kl.losses.NormalLoss(),
        steps_per_execution=min(STEPS_PER_CALL, steps),
    )
    rows = Repeated(x.astype("float32"), y.astype("float32")[:, None], steps)
    curve = []
    for _ in range(POINTS):
        model.fit(rows, verbose=0)
        curve.append(keras.ops.convert_to_numpy(layer.kernel)[:, 0])
    return curve


def ridge_path(x, y):
    """Weights `(inputs, strengths)` of ridge regression."""
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    shrunk = s[:, None] / (s[:, None] ** 2 + STRENGTHS)
    return vt.T @ (shrunk * (u.T @ y)[:, None])


def adaptive_lasso(x, y):
    """LASSO with a strength for each weight, from a first estimate."""
    first = linear_model.RidgeCV(STRENGTHS, fit_intercept=False).fit(x, y)
    size = np.abs(first.coef_)
    lasso = linear_model.LassoLarsCV(fit_intercept=False, cv=5, max_iter=2000)
    return size * lasso.fit(x * size, y).coef_


def peers(x, y, on):
    """Weights of the other L1 methods, by name."""
    support = np.zeros(x.shape[1])
    support[on] = np.linalg.lstsq(x[:, on], y, rcond=None)[0]
    fits = {
        "LassoCV": linear_model.LassoCV(fit_intercept=False, cv=5),
        "ARDRegression": linear_model.ARDRegression(fit_intercept=False),
    }
    weights = {name: fit.fit(x, y).coef_ for name, fit in fits.items()}
    weights["adaptive LASSO"] = adaptive_lasso(x, y)
    return {**weights, "true support": support}


def study(size, share, noise, seed, steps):
    """Errors and shrinkage by method, and errors over the steps."""
    warnings.simplefilter("ignore")  # Some peers do not converge.
    keras.utils.set_random_seed(seed)
    x, y, truth = make_study(size, share, noise, seed)
    on = truth != 0

    def error(weights):
        return float(np.mean((weights - truth) ** 2))

    if share == 1:
        path, methods = ridge_path(x, y), {"D-Ridge": regularizers.DRidge}
        weights = {}
    else:
        path = linear_model.lars_path(x, y, method="lasso", max_iter=2000)[2]
        methods = {
            "D-LASSO": regularizers.DLasso,
            "Multi-LASSO": regularizers.MultiLasso,
        }
        weights = peers(x, y, on)
    weights["best fixed"] = min(path.T, key=error)
    curves = {n: learn(m, x, y, steps) for n, m in methods.items()}
    weights |= {name: curve[-1] for name, curve in curves.items()}
    return {
        "errors": {name: error(w) for name, w in weights.items()},
        "kept": {
            n: float(np.mean(w[on] / truth[on])) for n, w in weights.items()
        },
        "curves": {n: list(map(error, curve)) for n, curve in curves.items()},
    }


def draw(cells, every, steps):
    """Errors over the steps, relative to the best fixed strength."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(WIDTH, 3.6), sharey=True)
    across = steps / POINTS * np.arange(1, POINTS + 1)
    for axis, name in zip(
        axes, ("D-Ridge", "D-LASSO", "Multi-LASSO"), strict=True
    ):
        for (share, noise), found in zip(cells, every, strict=True):
            if name not in found[0]["curves"]:
                continue
            ratios = [
                np.array(one["curves"][name]) / one["errors"]["best fixed"]
                for one in found
            ]
            label = f"noise {noise:g}, {share:.0%} not zero"
            axis.plot(across, np.mean(ratios, axis=0), label=label)
        axis.axhline(1, color="0.5", linewidth=1)
        axis.set(title=name, xlabel="steps", yscale="log")
    axes[0].set(ylabel="error of the weights,\nover that of the best strength")
    axes[0].legend(fontsize=8)
    axes[2].legend(fontsize=8)
    return figure


def main():
    options = parser(__doc__).parse_args()
    size, seeds, steps = 500, 5, 20_000
    cells = [(s, n) for s in (1.0, *SHARES) for n in NOISES]
    if options.quick:
        size, seeds, steps, cells = 20, 1, 20, [(1.0, 1.0), (0.2, 0.1)]
    tasks = [
        (size, *cell, seed, steps) for cell in cells for seed in range(seeds)
    ]
    results = parallel(study, tasks)
    every = [results[i : i + seeds] for i in range(0, len(results), seeds)]
    data = {"size": size, "seeds": seeds, "steps": steps, "tables": {}}
    data["each_seed"] = {
        f"{share:.0%} not zero, noise {noise:g}": found
        for (share, noise), found in zip(cells, every, strict=True)
    }
    for key, chosen in (
        ("ridge", [i for i, (share, _) in enumerate(cells) if share == 1]),
        ("lasso", [i for i, (share, _) in enumerate(cells) if share < 1]),
    ):
        columns = [list(data["each_seed"])[i] for i in chosen]
        names = list(every[chosen[0]][0]["errors"])
        unit = "best fixed" if key == "ridge" else "true support"
        errors = {
            name: np.array(
                [[one["errors"][name] for one in every[i]] for i in chosen]
            )
            for name in names
        }
        data["tables"][key] = {
            "columns": columns,
            "rows": {
                name: list(e.mean(axis=1) / errors[unit].mean(axis=1))
                for name, e in errors.items()
            },
        }
        kept = {
            name: np.array(
                [[one["kept"][name] for one in every[i]] for i in chosen]
            ).T
            for name in names
        }
        data["tables"][f"{key}_kept"] = {
            "columns": columns,
            **mean_and_error(kept),
        }
    figure = draw(cells, every, steps)
    record("priors", data, {"steps": figure}, quick=options.quick)


if __name__ == "__main__":
    main()
