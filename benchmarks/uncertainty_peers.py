"""Boosted trees with a predicted normal distribution, if installed."""

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
