"""Images whose training labels are partly wrong, with the truth beside."""

import io
import os
from typing import NamedTuple

import numpy as np

PEOPLE = {
    "clean": "clean_label",
    "aggre": "aggre_label",
    "random1": "random_label1",
    "worse": "worse_label",
}
"""Labels of CIFAR-10N: the truth, and people's with 9, 17 and 40 % errors."""


class Labelled(NamedTuple):
    """Training and test images; `given` may differ from `truth`."""

    x: np.ndarray
    given: np.ndarray
    truth: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def wrong(self):
        return self.given != self.truth

    @property
    def classes(self):
        return int(self.truth.max()) + 1


def load(data, labels, seed):
    """Images of `data` with `labels`: a kind of CIFAR-10N, or a noise.

    A noise is a share of labels that are moved to another class at random,
    such as 0.4, or `pairs0.4`: to the next class. The name of an `.npy` file
    stands for the labels in it.
    """
    if data == "digits":
        x, truth, x_test, y_test = _digits(seed)
    else:
        x, truth, x_test, y_test = _photographs(data)
    if labels.endswith(".npy"):
        given = np.load(labels).astype("int32")
    elif labels not in PEOPLE:
        given = _moved(truth, labels, np.random.default_rng(1000 + seed))
    elif data == "cifar10":
        with np.load(os.path.join(_folder(), "labels", "cifar10n.npz")) as file:
            given = file[PEOPLE[labels]].astype("int32").ravel()
    else:
        raise SystemExit(f"Labels of people are those of cifar10, not {data}")
    return Labelled(x, given, truth, x_test, y_test)


def _digits(seed):
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x.reshape(-1, 8, 8, 1) / 16).astype("float32")
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:1400], order[1400:]
    return x[train], y[train], x[test], y[test]


def _photographs(name):
    with np.load(
        os.path.join(_folder(), "images", f"{name}_jpeg90.npz")
    ) as file:
        x = _unpack(file)
        y, y_test = (
            file[k].astype("int32").ravel() for k in ("y_train", "y_test")
        )
    return x[: len(y)], y, x[len(y) :], y_test


def _folder():
    folder = os.environ.get("KERAS_LIKELIHOOD_DATA")
    if not folder:
        raise SystemExit("Set KERAS_LIKELIHOOD_DATA to the folder of the data")
    return folder


def _unpack(archive):
    """JPEG mosaics to images `(count, 32, 32, 3)` of bytes."""
    from PIL import Image

    rows, columns, height, width = (int(v) for v in archive["grid"])
    ends = np.cumsum(archive["lens"])
    count = len(archive["y_train"]) + len(archive["y_test"])
    x = np.empty((len(ends), rows, columns, height, width, 3), "uint8")
    for i, mosaic in enumerate(np.split(archive["jpeg"], ends[:-1])):
        pixels = np.asarray(Image.open(io.BytesIO(mosaic.tobytes())))
        tiles = pixels.reshape(rows, height, columns, width, 3)
        x[i] = tiles.transpose(0, 2, 1, 3, 4)
    return x.reshape(-1, height, width, 3)[:count]


def _moved(truth, labels, rng):
    pairs = labels.startswith("pairs")
    share = float(labels.removeprefix("pairs"))
    classes = int(truth.max()) + 1
    by = 1 if pairs else rng.integers(1, classes, len(truth))
    wrong = rng.random(len(truth)) < share
    return np.where(wrong, (truth + by) % classes, truth).astype("int32")
