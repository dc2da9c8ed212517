"""Rules that move the scales of priors."""

from typing import Any, NamedTuple

import numpy as np

from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import to_float64
from keras_likelihood.regularizers.adaptive_regularizer import (
    AdaptiveRegularizer,
)

START = 0.01
"""Initial strength of L2, twice the factor of `keras.regularizers.L2`."""

_SQUARE_DECAY = 0.99


class Measurement(NamedTuple):
    """Weights whose scales a rule chooses together, and what was measured.

    The lists have one entry per weight. Priors of `group="model"` come
    together, all others one at a time.

    Attributes:
        prior: regularizer of the first weight.
        weights: the weights, as `keras.Variable`s.
        scales: present scales of their priors.
        slopes: `g . p` for each scale, or `None` before the first result. `g`
            is the gradient of the NLL of held-out rows with respect to the
            weight, averaged over the last measurements, and `p` the gradient
            of the prior: `w` for L2 and `sign(w)` for L1. It is 0 if the size
            of the weight has no effect.
        terms: number of likelihood terms of the training rows.
        progress: share of the steps of this `fit` that are done, 0 if the
            length of `fit` is not known.
    """

    prior: AdaptiveRegularizer
    weights: list[Any]
    scales: list[Array]
    slopes: list[Array] | None
    terms: float
    progress: float


class ScaleRule:
    """Chooses scales. Pass your own rule to `LearnScales`:

    ```python
    class RootMeanSquare(kl.regularizers.ScaleRule):
        def update(self, state, measured):
            weights = map(keras.ops.convert_to_numpy, measured.weights)
            return state, [(w**2).mean() ** 0.5 for w in weights]
    ```
    """

    moves = 100
    """Number of moves in one call of `fit`, if its length is known."""

    def update(
        self, state: Any, measured: Measurement
    ) -> tuple[Any, list[Array] | None]:
        """The next state and the new scales, or `None` to keep the scales.

        The first call has the state `None`.
        """
        raise NotImplementedError


class HeldOut(ScaleRule):
    """Follows the gradient of the held-out NLL.

    A step of training with the strength `lambda` moves a weight by
    `-rate * lambda * p`, where `p` is the gradient of its prior: `w` for L2
    and `sign(w)` for L1. To first order, the NLL of held-out rows, with the
    gradient `g`, changes with the strength by

        d NLL / d log(lambda) = -rate * lambda * (g . p)

    (Luketina et al., 2016). So the logarithm of the strength follows RMSProp
    on `-(g . p)`: it grows where smaller weights would lower the held-out NLL.
    All weights with `group="model"` share one strength, which follows the sum
    of `lambda * (g . p)` over these weights.

    Looking one step ahead regularizes deep networks too strongly. So `g` is
    a running mean over about five measurements. At an earlier one the weight
    was `w - change`, so this adds `g . change`: what training has done to the
    held-out NLL since then. While training improves it, the strength falls.
    `g` is computed with the statistics of the batch, as in training. Where
    the size of a weight has no effect, as in front of batch normalization,
    held-out rows say nothing about its strength within a few steps, and the
    strength keeps its initial value.

    L2 starts from the strength .01 (the factor .005 of Keras), and L1 from
    the strength that pulls the initial weights equally strongly, unless a
    prior has an `initial_scale`: too weak a start lets a network memorize its
    training rows before the strength has grown.

    Reference: J. Luketina, M. Berglund, K. Greff, T. Raiko, *Scalable
    gradient-based tuning of continuous regularization hyperparameters*, ICML
    2016.

    Args:
        rate: step size in the logarithm of the strength. Defaults to 0.05. It
            falls to half of it during a call of `fit`, if its length is known.
        moves: number of moves in one call of `fit`, if its length is known.
    """

    def __init__(self, rate: float = 0.05, moves: int = 100) -> None:
        for name, value in (("rate", rate), ("moves", moves)):
            if not value > 0:
                raise ValueError(f"`{name}` must be > 0. Received: {value}")
        self.rate, self.moves = rate, moves

    def update(
        self, state: Any, measured: Measurement
    ) -> tuple[Any, list[Array] | None]:
        """See `ScaleRule.update`."""
        prior, scales, slopes = measured[0], measured.scales, measured.slopes
        if state is None:
            return (0, 0.0), starting_scales(measured)
        if slopes is None or not all(np.isfinite(s).all() for s in slopes):
            return state, None
        products = [
            slope * scale**-prior.order
            for slope, scale in zip(slopes, scales, strict=True)
        ]
        # Weights of one strength count together.
        shared = prior.group == "model"
        slope = sum(map(np.sum, products)) if shared else products[0]
        state, move = self.step(state, slope, measured.progress)
        return state, [
            s * np.exp(-move / prior.order) if p.any() else s
            for s, p in zip(scales, products, strict=True)
        ]

    def step(self, state: Any, slope: Any, progress: float) -> tuple[Any, Any]:
        """The next state and a move along the slope, by RMSProp."""
        count, square = state
        square = _SQUARE_DECAY * square + (1 - _SQUARE_DECAY) * slope**2
        size = np.sqrt(square / (1 - _SQUARE_DECAY ** (count + 1)))
        # Smaller steps at the end leave less noise in the final strengths.
        rate = self.rate * (1.0 - 0.5 * progress)
        return (count + 1, square), rate * slope / (size + 1e-30)


def starting_scales(measured: Measurement) -> list[Array] | None:
    """The initial scales of `HeldOut`, or `None` if they were set before."""
    prior, scales = measured.prior, measured.scales
    if prior.initial_scale or not all(np.all(s == 1.0) for s in scales):
        return None
    scale = (START * measured.terms) ** -0.5
    if prior.order == 1:
        sizes = [np.abs(to_float64(w)).mean() for w in measured.weights]
        sizes = [size for size in sizes if size > 0]
        scale = scale**2 / np.mean(sizes) if sizes else scale
    return [np.full_like(s, scale) for s in scales]
