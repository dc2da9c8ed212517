"""Plots the scales that adaptive regularizers learned."""

import keras
import numpy as np

from keras_likelihood.regularizers import adaptive_weights

_MOST = 2000


def plot_prior_scales(model: keras.Layer, ax=None):
    """Plots the learned prior scale of every weight against its size.

    All layers are drawn, each in its own colour. Weights on a horizontal line
    share a scale. Weights that the prior has switched off are drawn hollow. At
    most 2000 entries of each weight are drawn.

    Args:
        model: a fitted model or layer with adaptive regularizers.
        ax: Matplotlib axes to draw on. Defaults to a new figure.

    Returns:
        The axes.

    Example:

    ```python
    plot_prior_scales(model).figure.savefig("scales.png")
    ```
    """
    weights = adaptive_weights(model)
    if not weights:
        raise ValueError(
            "`model` must have weights with an adaptive regularizer. "
            f"Received: {model.name} with none"
        )
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(5, 4), layout="constrained")[1]
    for i, weight in enumerate(weights):
        _scatter(ax, weight, color=f"C{i % 10}")
    ax.set(xscale="log", xlabel="size of the weight")
    ax.set(yscale="log", ylabel="scale of its prior")
    ax.legend(title="dots: on, circles: off")
    return ax


def _scatter(ax, weight, color):
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
