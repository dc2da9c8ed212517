"""Predicted parameters: maps over images, extremes, and the NLL over one."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from keras_likelihood import likelihoods
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.plots.axes import new_axes


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

    Returns:
        The Matplotlib figure.
    """
    columns = [*(images or {}).items(), *parameters.items()]
    columns = [(k, v if np.ndim(v) > 2 else np.array([v])) for k, v in columns]
    rows, wide = max(len(values) for _, values in columns), len(columns)
    size = 1.5 * wide, 1.5 * rows + 0.6
    grid = new_axes(rows, wide, figsize=size, squeeze=False)
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

    Returns:
        The Matplotlib figure.
    """
    images, values = np.asarray(images), np.ravel(values)
    fits = len(values) == len(images) >= count
    check_argument("values", values.shape, fits, f"one per image, >= {count}")
    order, side = np.argsort(values, kind="stable"), int(np.ceil(count**0.5))
    pair = new_axes(1, 2, figsize=(8, 4.4))
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

    Returns:
        The Matplotlib figure.
    """
    axes = axes or new_axes()
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
