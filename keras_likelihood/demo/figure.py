"""The figure of the demo."""

import numpy as np
from keras import ops

from keras_likelihood.demo import data

SOFTWARE = "keras_likelihood demo"
"""Mark of the figure's origin, in its first bytes."""
COLORS = ("tab:red", "tab:blue", "tab:green")


def draw(path, splits, fits):
    """Draws each model's curve, its interval and its calibration.

    Args:
        path: file to write.
        splits: the noisy curve, and a real data set.
        fits: for each of them the trained models.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 3.9), layout="constrained")
    *curves, calibration = figure.subplots(1, len(fits[0]) + 1)
    for axes, fit, color in zip(curves, fits[0], COLORS, strict=True):
        _draw_curve(axes, splits[0], fit, color)
    for axes in curves[1:]:
        axes.sharey(curves[0])
        axes.tick_params(labelleft=False)
    _draw_calibration(calibration, splits[1], fits[1])
    # The command recognises its own figure by this mark.
    figure.savefig(path, dpi=130, metadata={"Software": SOFTWARE})


def _draw_curve(axes, split, fit, color):
    x = np.linspace(-2, 2, 200, dtype="float32")[:, None]
    distribution = fit.distribution(x)
    low, high = map(ops.convert_to_numpy, distribution.interval(0.9))
    axes.plot(split.x, split.y, ".", color="0.75", markersize=3, label="data")
    axes.fill_between(
        x[:, 0],
        low[:, 0],
        high[:, 0],
        color=color,
        alpha=0.2,
        linewidth=0,
        label="90 % interval",
    )
    prediction = ops.convert_to_numpy(distribution.prediction)
    axes.plot(x, prediction, color=color, label="prediction")
    axes.plot(x, data.curve(x), "k--", linewidth=1, label="truth")
    axes.set_title(f"curve: {fit.name}", fontsize=10)
    axes.set_xlabel("x")
    axes.legend(fontsize=8, loc="upper left", frameon=False)


def _draw_calibration(axes, split, fits):
    """Share of held-out targets below each predicted quantile."""
    levels = np.linspace(0, 1, 41)
    axes.plot(levels, levels, "k--", linewidth=1)
    for fit, color in zip(fits, COLORS, strict=True):
        distribution = fit.distribution(split.x_test)
        cdf = ops.convert_to_numpy(distribution.cdf(split.y_test)).ravel()
        observed = [np.mean(cdf <= level) for level in levels]
        axes.plot(levels, observed, color=color, label=fit.name)
    axes.set_title("diabetes: calibration", fontsize=10)
    axes.set_xlabel("predicted quantile")
    axes.set_ylabel("share of targets below it")
    axes.set_aspect("equal")
    axes.legend(fontsize=8, frameon=False)
