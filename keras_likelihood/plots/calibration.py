"""Reliability diagrams, calibration curves and PIT histograms."""

from typing import Any

import numpy as np

from keras_likelihood.metrics import functions
from keras_likelihood.plots.axes import new_axes

_BLUE, _GREY, _RED, _PALE = "#2b6cb0", "#a0aec0", "#c05621", "#e2e8f0"
_COLOURS = (_RED, _BLUE, "#2f855a", "#6b46c1")


def plot_reliability(
    y_true: Any,
    probabilities: Any,
    *,
    bins: Any = 15,
    title: Any = None,
    axes: Any = None,
) -> Any:
    """Draws accuracy against confidence, with bands and a histogram.

    The points of a calibrated model lie on the diagonal. The bars are 95 %
    Wilson intervals of each bin's accuracy. If a bar does not reach the
    diagonal, the gap is larger than chance would explain.

    Args:
        y_true: class numbers `(n, ...)`.
        probabilities: `(n, ..., classes)`, or `(n, ...)` of class 1.
        bins: number of equal-width bins of the confidence. Defaults to 15.
        title: the title of the diagram, or `None`.
        axes: pair of Matplotlib axes for the diagram and the histogram, or
            `None` for a new figure.

    Returns:
        The Matplotlib figure.
    """
    right, confidence = functions.top_class(y_true, probabilities)
    if axes is None:
        axes = _new_pairs(1)[0]
    diagram, histogram = axes
    belief, rate, size = functions.reliability_bins(
        right, confidence, bins=bins
    )
    low, high = _wilson(rate, size)
    bars = np.maximum([rate - low, high - rate], 0)
    diagram.plot([0, 1], [0, 1], color=_GREY, linewidth=1, zorder=1)
    diagram.vlines(belief, rate, belief, color=_RED, alpha=0.35, linewidth=4)
    style = {"fmt": "o", "markersize": 4, "elinewidth": 1, "capsize": 2}
    diagram.errorbar(belief, rate, bars, color=_BLUE, **style)
    ece = functions.expected_calibration_error(y_true, probabilities, bins=bins)
    words = f"ECE {ece:.3f}\naccuracy {right.mean():.3f}"
    place = {"transform": diagram.transAxes, "verticalalignment": "top"}
    diagram.text(0.04, 0.95, words, **place)
    diagram.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy")
    diagram.tick_params(labelbottom=False)
    if title:
        diagram.set_title(title)
    counts, edges = np.histogram(confidence, bins, (0, 1))
    histogram.stairs(counts / len(right), edges, fill=True, color=_GREY)
    for label, values, color, dashes in (
        ("mean confidence", confidence, _RED, "-"),
        ("accuracy", right, _BLUE, "--"),
    ):
        line = {"color": color, "linewidth": 1, "linestyle": dashes}
        histogram.axvline(values.mean(), label=label, **line)
    histogram.legend(frameon=False, loc="upper left", fontsize="x-small")
    histogram.set(xlim=(0, 1), xlabel="confidence", ylabel="share")
    return diagram.figure


def compare_reliability(
    y_true: Any, predictions: Any, *, bins: Any = 15
) -> Any:
    """Draws several reliability diagrams side by side.

    Args:
        y_true: class numbers.
        predictions: dict of titles to probabilities.
        bins: number of bins. Defaults to 15.

    Returns:
        The Matplotlib figure.
    """
    pairs = _new_pairs(len(predictions))
    for pair, (title, p) in zip(pairs, predictions.items(), strict=True):
        plot_reliability(y_true, p, bins=bins, title=title, axes=pair)
    for diagram, histogram in pairs[1:]:
        diagram.set_ylabel("")
        histogram.set_ylabel("")
    return pairs[0][0].figure


def _new_pairs(count: int) -> list[Any]:
    """Axes of a diagram and a histogram below it, for each of `count`."""
    size = {"figsize": (3.6 * count + 0.4, 5.0), "height_ratios": [4, 1]}
    shared = {"sharex": "col", "sharey": "row", "squeeze": False}
    return list(zip(*new_axes(2, count, **size, **shared), strict=True))


def _wilson(rate: Any, size: Any, z: float = 1.96) -> Any:
    centre = (rate + z**2 / (2 * size)) / (1 + z**2 / size)
    half_width = np.sqrt(rate * (1 - rate) / size + z**2 / (4 * size**2))
    half_width = z * half_width / (1 + z**2 / size)
    return centre - half_width, centre + half_width


def plot_calibration_curve(cdf_values: Any, *, axes: Any = None) -> Any:
    """Draws observed against predicted frequencies.

    The curve of a calibrated model follows the diagonal. The grey band contains
    95 % (pointwise) of the curves of calibrated models on data of this size.

    Args:
        cdf_values: the predicted cdf at the targets, F_i(y_i), or a dict of
            titles to these values.
        axes: Matplotlib axes, or `None` for a new figure.

    Returns:
        The Matplotlib figure.
    """
    axes = axes or new_axes(figsize=(4.2, 4.2))
    curves = cdf_values if isinstance(cdf_values, dict) else {"": cdf_values}
    p = np.linspace(0, 1, 201)
    count = min(np.size(v) for v in curves.values())
    half = 1.96 * np.sqrt(p * (1 - p) / count)
    axes.fill_between(p, p - half, p + half, color=_PALE, zorder=0)
    axes.plot([0, 1], [0, 1], color=_GREY, linewidth=1)
    for colour, (title, values) in zip(_COLOURS, curves.items(), strict=False):
        ordered = np.sort(np.ravel(values))
        share = np.searchsorted(ordered, p, side="right") / len(ordered)
        cal = functions.calibration_error(ordered)
        label = f"{title}  CAL {cal:.4f}".strip()
        axes.plot(p, share, color=colour, label=label)
    axes.legend(frameon=False, loc="upper left")
    names = {"xlabel": "predicted frequency", "ylabel": "observed frequency"}
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", **names)
    return axes.figure


def plot_pit_histogram(
    cdf_values: Any, *, bins: int = 20, axes: Any = None
) -> Any:
    """Draws the histogram of F_i(y_i), which is flat if calibrated.

    If the middle is high, the scales are too large. If the middle is low, they
    are too small. A slope indicates a bias. The grey band contains 95 %
    (pointwise) of the bars of a calibrated model.

    Args:
        cdf_values: the predicted cdf at the targets.
        bins: number of bars. Defaults to 20.
        axes: Matplotlib axes, or `None` for a new figure.

    Returns:
        The Matplotlib figure.
    """
    axes = axes or new_axes(figsize=(4.2, 4.2))
    values = np.ravel(cdf_values)
    density, edges = np.histogram(values, bins, (0, 1), density=True)
    half = 1.96 * np.sqrt(bins * (1 - 1 / bins) / len(values))
    axes.axhspan(max(1 - half, 0), 1 + half, color=_PALE, zorder=0)
    axes.stairs(density, edges, fill=True, color=_BLUE, alpha=0.7)
    axes.axhline(1, color=_GREY, linewidth=1)
    axes.set(xlim=(0, 1), xlabel="F(y)", ylabel="density")
    return axes.figure
