"""Robust linear regression against scikit-learn's.

Lines and planes of many slopes, noise levels and sizes, with outliers (a)
spread at large x, (b) in one cluster at large x, (c) at random x, or none.
Every method fits every data set in turn, with its defaults. Printed are the
median and the 90th percentile over data sets of the error of the slopes (the
length of the error vector, inputs of unit spread, in units of the noise), the
share of data sets on which RANSAC does no better, and the median time of a
fit on one thread. A RANSAC that finds no model counts as least squares.

    python benchmarks/robust_regression.py
    python benchmarks/robust_regression.py --study wide
    python benchmarks/robust_regression.py --study fractions
    python benchmarks/robust_regression.py --study pca
"""

import argparse
import time
import warnings

import numpy as np
import threadpoolctl
from scipy.linalg import subspace_angles
from sklearn import decomposition, linear_model

from keras_likelihood import robust

FIRST_SEED = 1000
METHODS = {
    "MPLS-XY": robust.PredictedScaleRegressor,
    "DPLS": robust.DataScaleRegressor,
    "MPLS-X": lambda: robust.PredictedScaleRegressor("x"),
    "RANSAC": lambda: linear_model.RANSACRegressor(random_state=0),
    "Theil-Sen": lambda: linear_model.TheilSenRegressor(random_state=0),
    "Huber": lambda: linear_model.HuberRegressor(max_iter=1000),
    "OLS": linear_model.LinearRegression,
}
KINDS = ("spread", "cluster", "random", "clean")


def make_study(kind, seed, *, wide, fraction=None):
    """Inputs, targets, true slopes, units of the inputs and noise.

    `wide` varies dimensions, examples and the fraction of outliers too; else
    they are 1, 100 and 0.3.
    """
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    d, n, share = 1, 100, 0.3
    if wide:
        d = int(rng.choice([1, 2, 3, 5, 10, 20]))
        n = round(np.exp(rng.uniform(np.log(max(30, 8 * d)), np.log(10_000))))
        share = rng.uniform(0.1, 0.45)
    share = share if fraction is None else fraction
    x = rng.normal(size=(n, d))
    if rng.uniform() < 0.5:
        x = rng.uniform(-1.7, 1.7, (n, d))
    slopes, offset = 3 * rng.normal(size=d), 5 * rng.normal()
    noise, units = 10 ** rng.uniform(-2, 0), 10 ** rng.uniform(-1, 1, d)
    y = x @ slopes + offset + noise * rng.normal(size=n)
    outliers = round(share * n) if kind != "clean" else 0
    size = max(np.linalg.norm(slopes), 1) * rng.uniform(3, 10)
    _contaminate(kind, x[:outliers], y[:outliers], slopes, offset, size, rng)
    order = rng.permutation(n)
    return x[order] * units, y[order], slopes, units, noise


def _contaminate(kind, x, y, slopes, offset, size, rng):
    """Turns all the rows given into outliers, in place."""
    m, d = x.shape
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    if kind == "spread":
        x += rng.uniform(2, 6, (m, 1)) * direction
        y[:] = offset + size * rng.normal(size=m)
    elif kind == "cluster":
        center = rng.uniform(3, 6) * direction
        x[:] = center + 0.3 * rng.normal(size=(m, d))
        y[:] = center @ slopes + offset + rng.choice([-1, 1]) * size
        y += 0.3 * rng.normal(size=m)
    elif rng.uniform() < 0.5:
        y += size * rng.normal(size=m)
    else:
        y += size * rng.uniform(0.3, 1, m)


def fit_slopes(make, x, y):
    try:
        model = make().fit(x, y)
    except ValueError:
        model = linear_model.LinearRegression().fit(x, y)
    return getattr(model, "estimator_", model).coef_


def compare(kind, sets, names, **options):
    """Errors and seconds, each a dict of arrays by method."""
    errors = {name: [] for name in names}
    seconds = {name: [] for name in names}
    for seed in range(FIRST_SEED, FIRST_SEED + sets):
        x, y, slopes, units, noise = make_study(kind, seed, **options)
        for name in names:
            begin = time.perf_counter()
            found = fit_slopes(METHODS[name], x, y)
            seconds[name].append(time.perf_counter() - begin)
            error = np.linalg.norm(found * units - slopes) / noise
            errors[name].append(error)
    as_arrays = {name: np.array(errors[name]) for name in names}
    return as_arrays, {name: np.array(seconds[name]) for name in names}


def print_table(title, errors, seconds):
    print(f"\n{title}")
    print("| method | median | 90 % | no worse than RANSAC | ms |")
    print("|---|---:|---:|---:|---:|")
    for name, error in errors.items():
        even = np.mean(error <= errors["RANSAC"] * (1 + 1e-9))
        print(
            f"| {name} | {np.median(error):.3f} | "
            f"{np.quantile(error, 0.9):.3f} | {even:.2f} | "
            f"{1e3 * np.median(seconds[name]):.1f} |"
        )


def print_efficiency(errors):
    """Mean squared error of OLS over that of each method."""
    ols = np.mean(errors["OLS"] ** 2)
    print("efficiency:", end="")
    for name, error in errors.items():
        print(f" {name} {ols / np.mean(error**2):.2f}", end="")
    print()


def study_regression(sets, kinds, *, wide):
    # Theil-Sen takes seconds a fit where there are many columns.
    names = [name for name in METHODS if not (wide and name == "Theil-Sen")]
    for kind in kinds:
        errors, seconds = compare(kind, sets, names, wide=wide)
        print_table(kind, errors, seconds)
        if kind == "clean":
            print_efficiency(errors)


def study_fractions(sets, kinds):
    names = ["MPLS-XY", "DPLS", "RANSAC", "Huber"]
    print("\nmedian / 90 % by share of outliers")
    for kind in kinds:
        if kind == "clean":
            continue
        for fraction in (0.1, 0.2, 0.3, 0.4, 0.45):
            errors, _ = compare(
                kind, sets, names, wide=False, fraction=fraction
            )
            cells = (
                f"{name} {np.median(e):.2f} / {np.quantile(e, 0.9):.2f}"
                for name, e in errors.items()
            )
            print(f"{kind} {fraction:.2f}:", ", ".join(cells), flush=True)


def study_pca(sets):
    """Largest angle between the true and the fitted subspace, degrees."""
    print("| outliers | PCA median | 90 % | RobustPCA median | 90 % |")
    print("|---|---:|---:|---:|---:|")
    for kind in ("spread", "cluster"):
        for fraction in (0.0, 0.1, 0.2, 0.3):
            angles = np.array(
                [
                    _angles(kind, fraction, seed)
                    for seed in range(FIRST_SEED, FIRST_SEED + sets)
                ]
            )
            low, high = np.quantile(np.degrees(angles), [0.5, 0.9], axis=0)
            print(
                f"| {kind} {fraction:.1f} | {low[0]:.1f} | {high[0]:.1f} | "
                f"{low[1]:.1f} | {high[1]:.1f} |"
            )


def _angles(kind, fraction, seed):
    rng = np.random.default_rng(seed)
    n, d, q = (int(rng.integers(*r)) for r in ((60, 400), (4, 20), (1, 4)))
    basis = np.linalg.qr(rng.normal(size=(d, q)))[0].T
    x = (rng.normal(size=(n, q)) * rng.uniform(1, 4, q)) @ basis
    x += 0.2 * rng.normal(size=(n, d)) + 3 * rng.normal(size=d)
    m = round(fraction * n)
    if kind == "cluster":
        x[:m] += 15 * rng.normal(size=d) / np.sqrt(d)
    else:
        x[:m] += 8 * rng.normal(size=(m, d))
    models = decomposition.PCA(q), robust.RobustPCA(q)
    return [
        subspace_angles(model.fit(x).components_.T, basis.T).max()
        for model in models
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    studies = ("line", "wide", "fractions", "pca")
    parser.add_argument("--study", choices=studies, default="line")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    options = parser.parse_args()
    options.sets = options.sets or (500 if options.study == "line" else 100)
    # Huber's solver reports that it stopped early; its error says so too.
    warnings.simplefilter("ignore")
    # Threads that wait for one method's next product slow the next method.
    with threadpoolctl.threadpool_limits(1):
        if options.study == "pca":
            study_pca(options.sets)
        elif options.study == "fractions":
            study_fractions(options.sets, options.kinds)
        else:
            wide = options.study == "wide"
            study_regression(options.sets, options.kinds, wide=wide)


if __name__ == "__main__":
    main()
