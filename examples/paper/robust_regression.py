"""Robust lines: learned scales against RANSAC, Theil-Sen and Huber.

    python examples/paper/robust_regression.py

A line with noise and, at large x, points of no relation to it. Error of the
slope over many such sets, and the processor time of a fit, methods in turns.
"""

import time
import warnings

import numpy as np
import threadpoolctl
from affine_scale import AffineScaleRegressor
from results import BELOW, WIDTH, parser, pyplot, record
from sklearn import linear_model

from keras_likelihood import robust

METHODS = {
    "OLS": linear_model.LinearRegression,
    "Huber": lambda: linear_model.HuberRegressor(max_iter=1000),
    "Theil-Sen": lambda: linear_model.TheilSenRegressor(random_state=0),
    "RANSAC": lambda: linear_model.RANSACRegressor(random_state=0),
    "DPLS": robust.DataScaleRegressor,
    "MPLS-X": lambda: robust.PredictedScaleRegressor("x"),
    "MPLS-XY": lambda: robust.PredictedScaleRegressor("xy"),
    "MPLS-XY, affine": AffineScaleRegressor,
}
SLOPE, NOISE = 2.0, 0.3


def make_study(seed, kind, examples=150, share=0.25):
    """Inputs and targets; the outliers come first."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, examples)
    y = SLOPE * x + 1 + NOISE * rng.standard_normal(examples)
    m = round(share * examples)
    if kind == "large x, spread":
        x[:m] = rng.uniform(4, 8, m)
        y[:m] = 4 * rng.standard_normal(m)
    elif kind == "large x, one cluster":
        x[:m] = 6 + 0.3 * rng.standard_normal(m)
        y[:m] = -6 + 0.3 * rng.standard_normal(m)
    else:
        y[:m] += 8 * rng.standard_normal(m)
    return x[:, None], y


def fit(make, x, y):
    """The fitted model and its processor seconds."""
    begin = time.process_time()
    model = make().fit(x, y)
    return model, time.process_time() - begin


def slope_of(model):
    return float(np.ravel(getattr(model, "estimator_", model).coef_)[0])


def draw(kinds):
    plt = pyplot()
    figure, axes = plt.subplots(1, len(kinds), figsize=(WIDTH, 4.4))
    for axis, kind in zip(axes, kinds, strict=True):
        x, y = make_study(0, kind)
        axis.plot(x[:, 0], y, ".", color="0.6", ms=4)
        ends = np.array([[x.min()], [x.max()]])
        for place, (name, make) in enumerate(METHODS.items()):
            model, _ = fit(make, x, y)
            axis.plot(
                ends[:, 0],
                model.predict(ends),
                "-" if place > 3 else "--",
                color=f"C{place}",
                label=name,
            )
        axis.set(title=f"outliers: {kind}", ylim=(-12, 16))
    figure.legend(*axes[0].get_legend_handles_labels(), ncols=4, loc=BELOW)
    return figure


def main():
    options = parser(__doc__)
    options.add_argument("--sets", type=int, default=40)
    options = options.parse_args()
    sets = 2 if options.quick else options.sets
    kinds = ("large x, spread", "large x, one cluster", "random x")
    errors = {name: {kind: [] for kind in kinds} for name in METHODS}
    seconds = {name: [] for name in METHODS}
    # Threads that wait for one method's products slow the next method.
    with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
        # Huber's solver says that it stopped early; its error says so too.
        warnings.simplefilter("ignore")
        for kind in kinds:
            for seed in range(sets):
                x, y = make_study(seed, kind)
                for name, make in METHODS.items():
                    model, took = fit(make, x, y)
                    gap = abs(slope_of(model) - SLOPE) / NOISE
                    errors[name][kind].append(gap)
                    seconds[name].append(took)
        figure = draw(kinds)
    ransac = np.median(seconds["RANSAC"])
    rows = {
        name: [
            *(np.median(errors[name][kind]) for kind in kinds),
            1e3 * np.median(seconds[name]),
            ransac / np.median(seconds[name]),
        ]
        for name in METHODS
    }
    columns = [f"error, {kind}" for kind in kinds]
    table = {
        "columns": [*columns, "ms", "times faster than RANSAC"],
        "rows": rows,
    }
    data = {"sets": sets, "tables": {"errors": table}, "rows": rows}
    record("robust_regression", data, {"lines": figure}, quick=options.quick)


if __name__ == "__main__":
    main()
