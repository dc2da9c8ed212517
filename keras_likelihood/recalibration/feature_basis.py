"""The columns from which temperatures, scales and maps are predicted."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import log_softmax

from keras_likelihood.backend.types import Array, Tensor

MOST_COMPONENTS = 256
_SAMPLE_ROWS = 8192


class FeatureBasis:
    """Centres and scales features; projects them on principal directions.

    More than 256 columns are projected on their 256 strongest principal
    directions, which are found by subspace iteration from a fixed start.
    Constant columns are ignored.
    """

    def __init__(self, features: Array, weight: Array) -> None:
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

    def __call__(self, features: Array) -> Array:
        """Returns the features in this basis, `(rows, components)`."""
        dtype = features.dtype
        if self.directions is None:
            shifted = features - self.mean.astype(dtype)
            return shifted / self.scale.astype(dtype)
        kernel = self.directions / self.scale[:, None]
        projected = features @ kernel.astype(dtype)
        return projected - (self.mean @ kernel).astype(dtype)

    def to_raw(self, weights: Array) -> tuple[Array, Array]:
        """`(kernel, shift)` with `self(x) @ weights == x @ kernel + shift`."""
        if self.directions is not None:
            weights = self.directions @ weights
        kernel = weights / self.scale.reshape((-1,) + (1,) * (weights.ndim - 1))
        return kernel, -(self.mean @ kernel)


def _principal(sample: Array) -> Array:
    # The sample itself is used, because its Gram matrix would take longer.
    start = np.random.default_rng(0).standard_normal(
        (sample.shape[1], MOST_COMPONENTS + 32), dtype="float32"
    )
    basis = np.linalg.qr(sample.T @ (sample @ start))[0]
    basis = np.linalg.qr(sample.T @ (sample @ basis))[0]
    image = sample @ basis
    _, rotation = np.linalg.eigh(image.T @ image)
    return (basis @ rotation[:, -MOST_COMPONENTS:]).astype("float64")


SOURCES: dict[str | None, tuple[str, ...]] = {
    None: (),
    "logits": ("logits",),
    "features": ("features",),
    "all": ("logits", "sorted", "features"),
}
"""The groups of columns of each kind of predicted temperature."""


def raw_columns(
    groups: Iterable[str], z: Tensor, features: Tensor | None, xp: Any = np
) -> dict[str, Tensor]:
    """The columns of each available group, not standardised.

    `xp` is NumPy, or `keras.ops` for symbolic tensors.
    """
    columns = {"features": features}
    if "logits" in groups:
        # A constant added to a row must not change the result, as in a
        # softmax.
        logs = log_softmax if xp is np else xp.log_softmax
        columns["logits"] = logs(z, axis=-1)
        columns["sorted"] = xp.sort(columns["logits"])
    return {k: columns[k] for k in groups if columns.get(k) is not None}
