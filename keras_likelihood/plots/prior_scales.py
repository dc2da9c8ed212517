"""Plots the scales and strengths that adaptive regularizers learned."""

from typing import Any

import keras
import numpy as np

from keras_likelihood.plots.axes import new_axes
from keras_likelihood.regularizers import adaptive_weights

_MOST = 2000


def plot_prior_scales(model: keras.Layer, ax: Any = None) -> Any:
    """Plots the learned prior scale of every weight against its size.

    All layers are drawn, each in its own colour. Weights on a horizontal line
    share a scale. Weights that the prior has switched off are drawn hollow. At
    most 2000 entries of each weight are drawn.

    Args:
        model: a fitted model or layer with adaptive regularizers.
        ax: Matplotlib axes to draw on. Defaults to a new figure.

    Returns:
        The axes.
    """
    weights = adaptive_weights(model)
    if not weights:
        raise ValueError(
            "`model` must have weights with an adaptive regularizer. "
            f"Received: {model.name} with none"
        )
    ax = ax or new_axes()
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

    Returns:
        The axes.
    """
    lines: dict[Any, list[Any]] = {}
    for weight in adaptive_weights(model):
        if history := weight.regularizer.history:
            lines.setdefault(tuple(history), []).append(weight)
    if not lines:
        raise ValueError(
            "`model` must have adaptive regularizers and be fitted with them "
            f"in this session. Received: {model.name} without epochs"
        )
    ax = ax or new_axes()
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
    if size.size > _MOST:
        drawn = np.random.default_rng(0).choice(size.size, _MOST, replace=False)
        off, scale, size = off[drawn], scale[drawn], size[drawn]
    ax.scatter(size[~off], scale[~off], s=12, color=color, label=weight.path)
    hollow = {"facecolors": "none", "edgecolors": color, "linewidths": 0.6}
    ax.scatter(size[off], scale[off], s=12, **hollow)
