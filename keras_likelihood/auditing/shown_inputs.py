"""Inputs as a person can look at them: pictures, text or table cells."""

import numpy as np

from keras_likelihood.auditing.images import Images
from keras_likelihood.auditing.inputs import as_names
from keras_likelihood.auditing.rows import Rows
from keras_likelihood.auditing.texts import Texts


class Unseen:
    """Examples of which nothing but their index can be shown."""

    features = ()

    def describe(self, index: int) -> dict:
        """What the page shows of an example."""
        return {}


def show_inputs(x, feature_names):
    """Chooses how inputs are shown.

    Args:
        x: an array, or a structure of several.
        feature_names: names of the columns of `(n, features)`, or `None`.
    """
    numbers = isinstance(x, np.ndarray) and x.dtype.kind in "biuf"
    tabular = numbers and x.ndim in (1, 2)
    if feature_names is not None and not tabular:
        raise ValueError(
            "`feature_names` are those of the columns of `x`, an array "
            f"(n, features). Received: x of shape {np.shape(x)}"
        )
    if tabular:
        x = x.reshape(len(x), -1)
        names = as_names(feature_names, "feature_names", x.shape[1])
        names = names or [f"x{i}" for i in range(x.shape[1])]
        return Rows(x, names) if x.shape[1] else Unseen()
    if isinstance(x, np.ndarray) and x.size == len(x) and _is_text(x):
        return Texts(x)
    if numbers and x.ndim == 4 and x.shape[-1] not in (1, 3, 4):
        x = np.moveaxis(x, 1, -1)
    grey = numbers and x.ndim == 3 and min(x.shape[1:]) > 3
    if grey or (numbers and x.ndim == 4 and x.shape[-1] in (1, 3, 4)):
        return Images(x)
    return Unseen()


def _is_text(x):
    if x.dtype.kind == "O":
        return all(isinstance(text, str | bytes) for text in x.ravel())
    return x.dtype.kind in "SUT"
