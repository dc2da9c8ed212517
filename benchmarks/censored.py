"""Compares censored likelihoods with lifelines, on lifelines' data sets.

    pip install lifelines
    KERAS_BACKEND=jax python benchmarks/censored.py

A linear Keras model with `Censored(Weibull)` on the times, or
`Censored(Normal)` on their logarithms, is trained by full-batch Adam. For
each set the script prints the NLL per example and the largest difference of
a coefficient; the penalty of lifelines is switched off. Inputs are
standardised for both. The sets are censored on the right (rossi, lung,
waltons), on the left (nh4) and by intervals (diabetes).
"""

import math
import warnings

import keras
import numpy as np
from lifelines import LogNormalAFTFitter, WeibullAFTFitter, datasets
from paper.literal import Repeated

import keras_likelihood as kl

STEPS = 3000


def sets():
    """By name: inputs as a table, and the bounds of the times."""
    rossi = datasets.load_rossi()
    lung = datasets.load_lung()
    lung = lung[["time", "status", "age", "sex", "ph.karno"]].dropna()
    waltons = datasets.load_waltons()
    waltons["group"] = (waltons["group"] == "control") * 1.0
    for name, table, time, event in [
        ("rossi", rossi, "week", "arrest"),
        ("lung", lung, "time", "status"),
        ("waltons", waltons, "T", "E"),
    ]:
        bounds = kl.censored(table[time], event=table[event])
        yield name, table.drop(columns=[time, event]), bounds
    nh4 = datasets.load_nh4()
    level = nh4["NH4.mg.per.L"].to_numpy()
    low = np.where(nh4["Censored"], 0.0, level)
    yield "nh4", nh4[["Week"]], kl.censored(lower=low, upper=level)
    diabetes = datasets.load_diabetes()
    sex = (diabetes[["gender"]] == "male") * 1.0
    bounds = kl.censored(lower=diabetes["left"], upper=diabetes["right"])
    yield "diabetes", sex, bounds


def standardized(table):
    table = table.astype("float64")
    return (table - table.mean()) / table.std(ddof=0)


def fit_lifelines(fitter, table, bounds):
    """`(coefficients, log of the scale or shape, mean NLL)`."""
    table = table.copy()
    table["low"], table["high"] = bounds.T.astype("float64")
    if np.all((table["low"] == 0) | (table["low"] == table["high"])):
        table["exact"] = table.pop("low") > 0
        fitted = fitter.fit_left_censoring(table, "high", "exact")
    else:
        # The gradient of lifelines is NaN at a bound of 0.
        table["low"] = table["low"].clip(lower=1e-8)
        fitted = fitter.fit_interval_censoring(table, "low", "high")
    location, spread = fitted.params_.groupby(level=0, sort=False)
    weights = location[1].to_numpy()
    return (
        weights,
        float(spread[1].iloc[0]),
        -fitted.log_likelihood_ / len(table),
    )


def fit_keras(name, x, bounds):
    """Kernel and bias, the scale or shape, and the mean NLL."""
    is_weibull = name == "weibull"
    y = bounds[:, None]
    if not is_weibull:
        with np.errstate(divide="ignore"):
            y = np.log(y)
    inputs = keras.Input((x.shape[1],))
    mean = float(np.log(np.median(bounds[np.isfinite(bounds) & (bounds > 0)])))
    layer = keras.layers.Dense(
        1,
        activation="exponential" if is_weibull else None,
        bias_initializer=keras.initializers.Constant(mean),
    )
    model = kl.LikelihoodModel(inputs, layer(inputs))
    decay = keras.optimizers.schedules.CosineDecay(0.05, STEPS)
    model.compile(
        keras.optimizers.Adam(decay, beta_2=0.99),
        loss=kl.losses.LikelihoodLoss(f"censored({name})"),
        steps_per_execution=10,
    )
    model.fit(Repeated(x, y, STEPS), verbose=0)
    (spread,) = model.loss.parameter_values().values()
    weights = np.append(*(w.ravel() for w in layer.get_weights()))
    nll = float(np.mean(model.predict_distribution(x, verbose=0).nll(y)))
    if is_weibull:
        # Our prediction is the mean, theirs the scale.
        weights[-1] -= math.lgamma(1 + 1 / spread)
    else:
        # NLL of the times themselves, from that of their logarithms.
        exact = y[..., 0] == y[..., 1]
        nll += float(np.sum(np.where(exact, y[..., 0], 0))) / len(x)
    return weights, math.log(spread), nll


def main():
    warnings.simplefilter("ignore")
    keras.utils.set_random_seed(0)
    print("set        likelihood   NLL ours  lifelines  largest difference")
    for set_name, table, bounds in sets():
        table = standardized(table)
        # lifelines sorts its covariates.
        table = table[sorted(table.columns)]
        x = table.to_numpy("float32")
        for name, fitter in [
            ("weibull", WeibullAFTFitter(penalizer=0.0)),
            ("normal", LogNormalAFTFitter(penalizer=0.0)),
        ]:
            theirs = fit_lifelines(fitter, table, bounds)
            ours = fit_keras(name, x, bounds)
            difference = np.max(np.abs(ours[0] - theirs[0]))
            difference = max(difference, abs(ours[1] - theirs[1]))
            print(
                f"{set_name:10} {name:10} {ours[2]:10.5f} {theirs[2]:10.5f} "
                f"{difference:19.5f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
