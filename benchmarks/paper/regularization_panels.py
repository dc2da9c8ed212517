"""Panels of the strength of L1 and L2, learned instead of searched.

A linear model with as many weights as examples:

1. ridge: error of the weights over the strength of L2, and where D-Ridge and
   cross-validation end up;
2. lasso: the same for L1 at 10 % of the weights not zero, with Multi-LASSO,
   which no single strength can reach;
3. all L1 methods over the share of weights that are not zero, against least
   squares on the true support.
"""

import warnings

import keras
import numpy as np
from literal import Repeated
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

import keras_likelihood as kl
from keras_likelihood.regularizers import (
    DLasso,
    DRidge,
    MultiLasso,
)

# PyTorch runs one step at a time.
STEPS_PER_CALL = 1 if keras.backend.backend() == "torch" else 5


def make_study(size, sparsity, seed=0):
    """Weights uniform on [1, 2] on a share `sparsity` of the inputs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((size, size))
    weights = rng.uniform(1, 2, size)
    weights = weights * (rng.permutation(size) < round(sparsity * size))
    return x, x @ weights + rng.standard_normal(size), weights


def fit_adaptive(regularizer, x, y, steps):
    """Learns weights, prior scale and noise together; returns the model."""
    inputs = keras.Input((x.shape[1],))
    outputs = keras.layers.Dense(
        1, use_bias=False, kernel_regularizer=regularizer(num_examples=len(x))
    )(inputs)
    model = kl.LikelihoodModel(inputs, outputs)
    decay = keras.optimizers.schedules.CosineDecay(0.05, steps)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99),
        loss=kl.losses.NormalLoss(),
        steps_per_execution=STEPS_PER_CALL,
    )
    data = Repeated(x.astype("float32"), y.astype("float32")[:, None], steps)
    model.fit(data, verbose=0)
    return model


def weights_of(model):
    return keras.ops.convert_to_numpy(model.layers[-1].kernel)[:, 0]


def found_strength(model, keras_per_strength):
    """The learned strength, in the units of the searched one.

    Relative to the likelihood the penalty is `strength`; relative to the
    squared error it is that times the noise variance.
    """
    noise = float(model.loss.parameter_values()["scale"])
    strength = model.layers[-1].kernel_regularizer.strength().mean()
    return strength * noise**2 / keras_per_strength


def error(found, weights):
    return np.mean((np.asarray(found) - weights) ** 2)


def fit_quietly(estimator, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(x, y)


def draw_ridge(ax, size, steps, seed=0):
    x, y, weights = make_study(size, 1.0, seed)
    strengths = np.geomspace(1e-2, 1e2, 60)
    errors = [
        error(
            linear_model.Ridge(s, fit_intercept=False).fit(x, y).coef_, weights
        )
        for s in strengths
    ]
    searched = linear_model.RidgeCV(strengths, fit_intercept=False).fit(x, y)
    model = fit_adaptive(DRidge, x, y, steps)
    # sklearn's ridge adds `s |w|^2` to the sum of squares.
    learned = found_strength(model, 0.5 / size)
    ax.plot(strengths, errors, color="0.4", label="any fixed strength")
    ax.plot(searched.alpha_, error(searched.coef_, weights), "s", label="CV")
    ax.plot(learned, error(weights_of(model), weights), "o", label="D-Ridge")
    ax.set(title="L2, all weights not zero", xlabel="strength of L2")


def draw_lasso(ax, size, steps, seed=0):
    x, y, weights = make_study(size, 0.1, seed)
    strengths = np.geomspace(0.3, 3e-3, 40)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        path = linear_model.lasso_path(x, y, alphas=strengths)[1]
    errors = [error(w, weights) for w in path.T]
    searched = linear_model.LassoCV(fit_intercept=False, cv=5)
    searched = fit_quietly(searched, x, y)
    model = fit_adaptive(DLasso, x, y, steps)
    many = fit_adaptive(MultiLasso, x, y, steps)
    ax.plot(strengths, errors, color="0.4", label="any fixed strength")
    ax.plot(searched.alpha_, error(searched.coef_, weights), "s", label="CV")
    ax.plot(
        found_strength(model, 1.0),
        error(weights_of(model), weights),
        "o",
        label="D-LASSO",
    )
    ax.axhline(
        error(weights_of(many), weights), color="C2", label="Multi-LASSO"
    )
    ax.set(title="L1, 10 % of the weights not zero", xlabel="strength of L1")


def draw_sparsities(ax, size, steps, sparsities, seed=0):
    methods = {
        "LassoCV": lambda x, y: (
            fit_quietly(
                linear_model.LassoCV(fit_intercept=False, cv=5), x, y
            ).coef_
        ),
        "ARDRegression": lambda x, y: (
            fit_quietly(
                linear_model.ARDRegression(fit_intercept=False), x, y
            ).coef_
        ),
        "D-LASSO": lambda x, y: weights_of(fit_adaptive(DLasso, x, y, steps)),
        "Multi-LASSO": lambda x, y: weights_of(
            fit_adaptive(MultiLasso, x, y, steps)
        ),
    }
    errors = {name: [] for name in ("true support", *methods)}
    for sparsity in sparsities:
        x, y, weights = make_study(size, sparsity, seed)
        on = weights != 0
        known = np.zeros_like(weights)
        known[on] = np.linalg.lstsq(x[:, on], y, rcond=None)[0]
        errors["true support"].append(error(known, weights))
        for name, method in methods.items():
            errors[name].append(error(method(x, y), weights))
        print(
            f"{sparsity:5.0%}  "
            + "  ".join(f"{n} {e[-1]:.5f}" for n, e in errors.items()),
            flush=True,
        )
    for name, values in errors.items():
        ax.plot(sparsities, values, "o-", label=name)
    ax.set(title="L1 methods", xlabel="share of weights not zero")
