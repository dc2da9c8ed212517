"""Figures. Matplotlib is imported when a figure is drawn.

Functions with an argument `ax` return it. The others return the figure.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.metrics import functions
from keras_likelihood.regularizers import adaptive_weights

__all__ = [
    "compare_reliability",
    "plot_calibration_curve",
    "plot_extremes",
    "plot_nll",
    "plot_parameter_maps",
    "plot_pit_histogram",
    "plot_prior_scales",
    "plot_reliability",
    "plot_strengths",
]

_BLUE, _GREY, _RED, _PALE = "#2b6cb0", "#a0aec0", "#c05621", "#e2e8f0"
_COLOURS = (_RED, _BLUE, "#2f855a", "#6b46c1")
_MOST_WEIGHTS = 2000


def _new_axes(rows: int = 1, columns: int = 1, **options: Any) -> Any:
    """Axes of a new figure: one, or an array `(rows, columns)`."""
    import matplotlib.pyplot as plt

    options = {"figsize": (5, 4), **options}
    return plt.subplots(rows, columns, layout="constrained", **options)[1]


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
    return list(zip(*_new_axes(2, count, **size, **shared), strict=True))


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
    """
    axes = axes or _new_axes(figsize=(4.2, 4.2))
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
    """
    axes = axes or _new_axes(figsize=(4.2, 4.2))
    values = np.ravel(cdf_values)
    density, edges = np.histogram(values, bins, (0, 1), density=True)
    half = 1.96 * np.sqrt(bins * (1 - 1 / bins) / len(values))
    axes.axhspan(max(1 - half, 0), 1 + half, color=_PALE, zorder=0)
    axes.stairs(density, edges, fill=True, color=_BLUE, alpha=0.7)
    axes.axhline(1, color=_GREY, linewidth=1)
    axes.set(xlim=(0, 1), xlabel="F(y)", ylabel="density")
    return axes.figure


def plot_parameter_maps(
    parameters: dict[str, Any], images: dict[str, Any] | None = None
) -> Any:
    """Draws maps of parameters beside their images, such as shape and scale.

    A row is an example. Each parameter has one range of colours.

    Args:
        parameters: dict of names to maps `(rows, height, width)`, or one map
            `(height, width)` that all examples share.
        images: dict of titles to images `(rows, height, width)`, or with a
            last axis of three channels from 0 to 1.
    """
    columns = [*(images or {}).items(), *parameters.items()]
    columns = [(k, v if np.ndim(v) > 2 else np.array([v])) for k, v in columns]
    rows, wide = max(len(values) for _, values in columns), len(columns)
    size = 1.5 * wide, 1.5 * rows + 0.6
    grid = _new_axes(rows, wide, figsize=size, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for at, (name, values) in enumerate(columns):
        below, is_image = grid[:, at], at < len(images or {})
        style = {"vmin": np.min(values), "vmax": np.max(values)}
        style["cmap"] = "gray" if is_image else "viridis"
        for axes, value in zip(below, values, strict=False):
            drawn = axes.imshow(value, **style)
        below[0].set_title(name)
        if not is_image:
            axes.figure.colorbar(drawn, ax=list(below), location="bottom")
    return grid[0, 0].figure


def plot_extremes(
    images: Any, values: Any, *, count: int = 25, name: str = "temperature"
) -> Any:
    """Draws the images with the lowest and those with the highest values.

    Args:
        images: `(n, height, width)`, or with a last axis of three channels.
        values: a predicted parameter of each image, `(n,)` or `(n, 1)`.
        count: number of images in each of the two mosaics. Defaults to 25.
        name: name of the values. Defaults to `"temperature"`.
    """
    images, values = np.asarray(images), np.ravel(values)
    fits = len(values) == len(images) >= count
    check_argument("values", values.shape, fits, f"one per image, >= {count}")
    order, side = np.argsort(values, kind="stable"), int(np.ceil(count**0.5))
    pair = _new_axes(1, 2, figsize=(8, 4.4))
    ends = {"lowest": order[:count], "highest": order[::-1][:count]}
    for axes, (word, chosen) in zip(pair, ends.items(), strict=True):
        tiles = np.full((side**2, *images.shape[1:]), images.max())
        tiles[:count] = images[chosen]
        rows = tiles.reshape(side, side, *images.shape[1:])
        axes.imshow(np.concatenate(np.concatenate(rows, 1), 1), cmap="gray")
        low, high = np.sort(values[chosen])[[0, -1]]
        axes.set_title(f"{word} {name}: {low:.3g} to {high:.3g}")
        axes.axis("off")
    return pair[0].figure


def plot_nll(
    likelihood: Any,
    parameter: str,
    values: Any,
    targets: Sequence[float],
    *,
    prediction: Any = 0.0,
    axes: Any = None,
    **others: Any,
) -> Any:
    """Draws the NLL of targets over a parameter, and marks each minimum.

    ```python
    plot_nll("normal", "scale", np.geomspace(0.1, 10, 200), [0.25, 1, 2])
    ```

    Args:
        likelihood: a likelihood or its name.
        parameter: name of the parameter.
        values: values of the parameter, `(n,)`.
        targets: targets, or class numbers. Each is a line.
        prediction: the prediction, a number or the logits. Defaults to 0.
        axes: Matplotlib axes, or `None` for a new figure.
        **others: values of the other parameters.
    """
    axes = axes or _new_axes()
    kind, values = likelihoods.get(likelihood), np.asarray(values, "float32")
    rows = np.tile(np.float32(np.atleast_1d(prediction)), (len(values), 1))
    distribution = kind(rows, **{parameter: values[:, None], **others})
    for target in targets:
        y = np.full(len(values), target)
        nll = np.ravel(keras.ops.convert_to_numpy(distribution.nll(y)))
        (line,) = axes.plot(values, nll, label=f"target {target:g}")
        best = int(np.argmin(nll))
        axes.plot(values[best], nll[best], "o", color=line.get_color())
    axes.set(xlabel=parameter, ylabel="NLL", xscale="log")
    axes.legend()
    return axes.figure


def plot_prior_scales(model: keras.Layer, ax: Any = None) -> Any:
    """Plots the learned prior scale of every weight against its size.

    All layers are drawn, each in its own colour. Weights on a horizontal line
    share a scale. Weights that the prior has switched off are drawn hollow. At
    most 2000 entries of each weight are drawn.

    Args:
        model: a fitted model or layer with adaptive regularizers.
        ax: Matplotlib axes to draw on. Defaults to a new figure.
    """
    weights = adaptive_weights(model)
    allowed = "a model with adaptive regularizers"
    check_argument("model", model.name, weights, allowed)
    ax = ax or _new_axes()
    for i, weight in enumerate(weights):
        _scatter(ax, weight, color=f"C{i % 10}")
    ax.set(xscale="log", xlabel="size of the weight")
    ax.set(yscale="log", ylabel="scale of its prior")
    ax.legend(title="dots: on, circles: off")
    return ax


def plot_strengths(model: keras.Layer, ax: Any = None) -> Any:
    """Plots the strength of every adaptive regularizer over the epochs.

    The strength is the factor of Keras' `L1` or `L2` that equals it, the
    median of a weight with several. Regularizers with the same strengths, such
    as those of `group="model"`, are drawn as one line.

    Args:
        model: a model with adaptive regularizers, after `fit`.
        ax: Matplotlib axes to draw on. Defaults to a new figure.
    """
    lines: dict[Any, list[Any]] = {}
    for weight in adaptive_weights(model):
        if history := weight.regularizer.history:
            lines.setdefault(tuple(history), []).append(weight)
    allowed = "fitted with adaptive regularizers in this session"
    check_argument("model", model.name, lines, allowed)
    ax = ax or _new_axes()
    for history, weights in lines.items():
        more = f" and {len(weights) - 1} more" if len(weights) > 1 else ""
        rows = weights[0].regularizer.source
        label = f"{weights[0].path}{more} ({rows})"
        epochs = np.arange(1, len(history) + 1)
        ax.plot(epochs, history, marker=".", label=label)
    ax.set(yscale="log", xlabel="epoch", ylabel="factor of Keras' L1 or L2")
    ax.legend()
    return ax


def _scatter(ax: Any, weight: Any, color: str) -> None:
    value = keras.ops.convert_to_numpy(weight)
    regularizer = weight.regularizer
    off = regularizer.switched_off(value).ravel()
    scale = np.broadcast_to(regularizer.scale(), value.shape).ravel()
    # Exact zeros are drawn at the left edge of a logarithmic axis.
    size = np.maximum(np.abs(value).ravel(), 1e-8)
    if size.size > _MOST_WEIGHTS:
        drawn = np.random.default_rng(0).choice(
            size.size, _MOST_WEIGHTS, replace=False
        )
        off, scale, size = off[drawn], scale[drawn], size[drawn]
    ax.scatter(size[~off], scale[~off], s=12, color=color, label=weight.path)
    hollow = {"facecolors": "none", "edgecolors": color, "linewidths": 0.6}
    ax.scatter(size[off], scale[off], s=12, **hollow)
