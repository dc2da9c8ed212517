"""Where strengths start, and how they follow the held-out NLL."""

from typing import Any

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import to_float64

START = 0.01
"""Initial strength of L2, twice the factor of `keras.regularizers.L2`."""

_SQUARE_DECAY = 0.99


class RMSPropStep:
    """Steps of RMSProp: `rate * slope / sqrt(mean square of slopes)`."""

    def __init__(self) -> None:
        self._count, self._square = 0, 0.0

    def __call__(self, slope: Any, rate: float) -> Any:
        self._count += 1
        square = (1 - _SQUARE_DECAY) * slope**2
        self._square = _SQUARE_DECAY * self._square + square
        size = np.sqrt(self._square / (1 - _SQUARE_DECAY**self._count))
        return rate * slope / (size + 1e-30)


def starting_scales(
    weights: list[Any], scales: list[Array], terms: float
) -> list[Array]:
    """Initial scales of weights whose scales are chosen together.

    The list is empty if the scales were set before. Too weak a start lets a
    network memorize its training rows before the strength has grown.
    """
    prior = weights[0].regularizer
    if prior.initial_scale or not all(np.all(s == 1.0) for s in scales):
        return []
    scale = (START * terms) ** -0.5
    if prior.order == 1:
        # L1 pulls the initial weights as strongly as L2.
        sizes = [np.abs(to_float64(w)).mean() for w in weights]
        sizes = [size for size in sizes if size > 0]
        scale = scale**2 / np.mean(sizes) if sizes else scale
    return [np.full_like(s, scale) for s in scales]


def next_scales(
    prior: Any, scales: list[Array], slopes: list[Array], step: Any, rate: float
) -> list[Array]:
    """The scales after a step of their strength along the held-out NLL."""
    products = [
        slope * scale**-prior.order
        for slope, scale in zip(slopes, scales, strict=True)
    ]
    if not all(np.isfinite(p).all() for p in products):
        return scales
    # Weights of one strength count together.
    total = sum(map(np.sum, products))
    move = step(total if prior.group == "model" else products[0], rate)
    return [
        s * np.exp(-move / prior.order) if p.any() else s
        for s, p in zip(scales, products, strict=True)
    ]
