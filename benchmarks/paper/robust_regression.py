"""Robust lines: learned scales against RANSAC and others (Figures 9, 10).

    python benchmarks/paper/robust_regression.py

A line with noise and outliers: at large x, as in Figure 10, where they are
spread or in one cluster, or at random x. Error of the
slope over many such sets, and the processor time of a fit, methods in turns.
`DPLS, paper` and `MPLS-XY, paper` are trained as the paper trains them
(`recipe.py`), all sets side by side; their time is that of one set, without
compilation.
"""

import time
import warnings

import numpy as np
import recipe
import threadpoolctl
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
}
LITERAL = {"DPLS, paper": "data", "MPLS-XY, paper": "xy"}
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


def by_the_paper(kinds, sets, steps):
    """Errors by method and kind, and seconds of one fit by method."""
    errors, seconds = {}, {}
    for name, scales in LITERAL.items():
        studies = [make_study(s, k) for k in kinds for s in range(sets)]
        seconds[name] = [recipe.slopes(scales, studies[:1], steps)[1]]
        slopes, _ = recipe.slopes(scales, studies, steps)
        gaps = (np.abs(slopes - SLOPE) / NOISE).reshape(len(kinds), sets)
        errors[name] = dict(zip(kinds, gaps.tolist(), strict=True))
    return errors, seconds


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
    options = parser(__doc__).parse_args()
    sets = 2 if options.quick else 20
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
        steps = 10 if options.quick else recipe.STEPS
        literal = by_the_paper(kinds, sets, steps)
        errors, seconds = errors | literal[0], seconds | literal[1]
        figure = draw(kinds)
    rows = {
        name: [
            *(np.median(errors[name][kind]) for kind in kinds),
            1e3 * np.median(seconds[name]),
        ]
        for name in errors
    }
    columns = [*(f"error, {kind}" for kind in kinds), "ms"]
    table = {"columns": columns, "rows": rows}
    data = {"sets": sets, "tables": {"errors": table}, "each_set": errors}
    record("robust_regression", data, {"lines": figure}, quick=options.quick)


if __name__ == "__main__":
    main()
