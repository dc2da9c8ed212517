"""Other models with a predicted normal distribution, if installed."""

import contextlib
import importlib.util
import io

import numpy as np

from keras_likelihood import likelihoods


def ngboost(train, held, test):
    """NGBoost at its defaults (Duan et al. 2020); held rows stop it."""
    from ngboost import NGBRegressor

    model = NGBRegressor(
        n_estimators=2000, early_stopping_rounds=50, verbose=False
    )
    with contextlib.redirect_stdout(io.StringIO()):  # it prints a line
        model.fit(*train, X_val=held[0], Y_val=held[1])
    return [
        _normal(law.loc, law.scale)
        for law in (model.pred_dist(x) for x in (test[0], held[0]))
    ]


def catboost(train, held, test):
    """CatBoost with its loss of mean and variance; held rows stop it."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        iterations=2000,
        early_stopping_rounds=50,
        allow_writing_files=False,
        thread_count=1,
        verbose=False,
    )
    model.fit(*train, eval_set=held)
    found = (model.predict(x) for x in (test[0], held[0]))
    return [_normal(v[:, 0], np.sqrt(v[:, 1])) for v in found]


def gaussian_process(train, held, test, nu=2.5):
    """Scikit-learn's exact Gaussian process with a Matern kernel and noise.

    The kernel has a length for each of up to 30 columns, else one for all. It
    is fitted to at most 2,000 rows, and then conditioned on at most 10,000.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(train[0])
    order = np.random.default_rng(0).permutation(len(train[1]))
    columns = train[0].shape[1]
    lengths = np.full(columns if columns <= 30 else 1, np.sqrt(columns))
    kernel = kernels.ConstantKernel() * kernels.Matern(
        lengths, (1e-2, 1e4), nu=nu
    ) + kernels.WhiteKernel(0.1, (1e-6, 10.0))
    for rows, optimizer in ((2_000, "fmin_l_bfgs_b"), (10_000, None)):
        few = order[:rows]
        model = GaussianProcessRegressor(kernel, optimizer=optimizer)
        model.fit(scaler.transform(train[0][few]), train[1][few])
        kernel = model.kernel_
    return [
        _normal(*model.predict(scaler.transform(x), return_std=True))
        for x in (test[0], held[0])
    ]


def _normal(mean, scale):
    mean, scale = (np.asarray(v, "float32")[:, None] for v in (mean, scale))
    return likelihoods.Normal(mean, scale=scale)


def available():
    """The peers that are installed, by the name of their row."""
    return {
        name: method
        for name, method in {"NGBoost": ngboost, "CatBoost": catboost}.items()
        if importlib.util.find_spec(name.lower())
    }
