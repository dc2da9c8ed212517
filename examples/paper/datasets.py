"""The real data of the studies, from the folder KERAS_LIKELIHOOD_DATA."""

import io
import os
import pathlib

import numpy as np

REGRESSION = {
    "crime": "crime_norm",
    "kin.": "kin8nm",
    "bank": "bank8FM",
    "wine": "wine_red",
    "mpg": "autompg",
    "cpu": "cpu_machine",
    "soil": "soil",
    "fried": "fried",
}
"""The eight regression sets: name in the tables and name of the file."""


def folder() -> pathlib.Path:
    """The data folder; an error says how to name it."""
    if "KERAS_LIKELIHOOD_DATA" not in os.environ:
        raise SystemExit(
            "This study needs real data: set KERAS_LIKELIHOOD_DATA to the "
            "folder that holds regression/, logits/ and images/."
        )
    return pathlib.Path(os.environ["KERAS_LIKELIHOOD_DATA"])


def regression(name: str, *, seed: int, rows: int | None = None):
    """Standardised inputs and targets, split at random 80 : 20.

    Missing inputs become their column's mean. Means and deviations are those
    of the training rows.

    Args:
        name: of the file.
        seed: of the split.
        rows: most rows kept, or `None` for all.

    Returns:
        `(x, y), (x_test, y_test)`, float32, y of shape `(n, 1)`.
    """
    with np.load(folder() / "regression" / f"{name}.npz") as file:
        x, y = file["X"].astype("float64"), file["y"].astype("float64")
    order = np.random.default_rng(seed).permutation(len(y))[:rows]
    cut = round(0.8 * len(order))
    train, test = order[:cut], order[cut:]
    mean = np.nanmean(x[train], axis=0)
    x = np.where(np.isnan(x), mean, x)
    deviation = x[train].std(axis=0)
    x = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    y = ((y - y[train].mean()) / y[train].std())[:, None]
    x, y = x.astype("float32"), y.astype("float32")
    return (x[train], y[train]), (x[test], y[test])


def logits(name: str) -> dict:
    """Logits, labels and, where there are any, features of a classifier."""
    with np.load(folder() / "logits" / f"{name}.npz") as file:
        return {key: file[key] for key in file.files}


def cifar10():
    """`(x_train, y_train), (x_test, y_test)`, images as uint8."""
    from PIL import Image

    with np.load(folder() / "images" / "cifar10_jpeg90.npz") as file:
        rows, columns, height, width = (int(v) for v in file["grid"])
        starts = np.concatenate([[0], np.cumsum(file["lens"])])
        sheets = file["jpeg"]
        labels = file["y_train"], file["y_test"]
    tiles = []
    for begin, end in zip(starts[:-1], starts[1:], strict=True):
        sheet = Image.open(io.BytesIO(sheets[begin:end].tobytes()))
        grid = np.asarray(sheet).reshape(rows, height, columns, width, 3)
        grid = grid.swapaxes(1, 2)
        tiles.append(grid.reshape(rows * columns, height, width, 3))
    images = np.concatenate(tiles)
    cut, end = len(labels[0]), len(labels[0]) + len(labels[1])
    return (images[:cut], labels[0]), (images[cut:end], labels[1])
