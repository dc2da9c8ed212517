"""The columns from which temperatures, scales and maps are predicted."""

import numpy as np
from scipy.special import log_softmax

MOST_COMPONENTS = 256
_SAMPLE_ROWS = 8192


class FeatureBasis:
    """Centres and scales features; projects them on principal directions.

    More than 256 columns are projected on their 256 strongest principal
    directions, which are found by subspace iteration from a fixed start.
    Constant columns are ignored.
    """

    def __init__(self, features, weight):
        # One product is used, because a copy of wide features is slow.
        self.mean = weight.astype(features.dtype) @ features / weight.sum()
        part = slice(None, None, max(1, len(features) // _SAMPLE_ROWS))
        sample = features[part].astype("float64") - self.mean
        weight = weight[part] / weight[part].mean()
        deviation = np.sqrt(weight @ sample**2 / len(sample))
        alive = deviation > 1e-6 * max(deviation.max(initial=0.0), 1e-30)
        self.scale = np.where(alive, deviation, np.inf)
        self.directions = None
        if features.shape[1] > MOST_COMPONENTS:
            sample = sample / self.scale * np.sqrt(weight)[:, None]
            self.directions = _principal(sample.astype("float32"))

    def __call__(self, features):
        """Returns the features in this basis, `(rows, components)`."""
        dtype = features.dtype
        if self.directions is None:
            shifted = features - self.mean.astype(dtype)
            return shifted / self.scale.astype(dtype)
        kernel = self.directions / self.scale[:, None]
        projected = features @ kernel.astype(dtype)
        return projected - (self.mean @ kernel).astype(dtype)

    def to_raw(self, weights):
        """`(kernel, shift)` with `self(x) @ weights == x @ kernel + shift`."""
        if self.directions is not None:
            weights = self.directions @ weights
        kernel = weights / self.scale.reshape((-1,) + (1,) * (weights.ndim - 1))
        return kernel, -(self.mean @ kernel)


def _principal(sample):
    # The sample itself is used, because its Gram matrix would take longer.
    start = np.random.default_rng(0).standard_normal(
        (sample.shape[1], MOST_COMPONENTS + 32), dtype="float32"
    )
    basis = np.linalg.qr(sample.T @ (sample @ start))[0]
    basis = np.linalg.qr(sample.T @ (sample @ basis))[0]
    image = sample @ basis
    _, rotation = np.linalg.eigh(image.T @ image)
    return (basis @ rotation[:, -MOST_COMPONENTS:]).astype("float64")


SOURCES = {
    None: (),
    "logits": ("logits",),
    "features": ("features",),
    "all": ("logits", "sorted", "features"),
}
"""The groups of columns of each kind of predicted temperature."""


def standardised_columns(groups, z, features, weight):
    """Bases of the groups of columns, and the columns in them, by name.

    The bases do not depend on labels. So all folds of a cross-validation share
    them, and each row is projected once.
    """
    raw = raw_columns(groups, z, features)
    bases = {name: FeatureBasis(x, weight) for name, x in raw.items()}
    return bases, {name: bases[name](x) for name, x in raw.items()}


def raw_columns(groups, z, features):
    """The columns of each available group, not standardised."""
    found: dict = {}
    if "logits" in groups or "sorted" in groups:
        # A constant added to a row must not change the result, as in a
        # softmax.
        found["logits"] = log_softmax(z, axis=1)
    if "sorted" in groups:
        found["sorted"] = np.sort(found["logits"], axis=1)
    if features is not None:
        found["features"] = features
    return {name: found[name] for name in groups if name in found}


def rows_of(columns, index):
    """Some rows of every group."""
    return {name: x[index] for name, x in columns.items()}
