"""One factor on all strengths of a network that separates classes.

The evidence takes the curvature as fixed, although it falls as the logits of
a classifier grow. Where classes hardly overlap, all layers of a network are
then regularized too strongly, by about the same factor, and the network is
not as sure as it could be. Here this factor is learned: it falls while the
network is too unsure of examples that it has not seen, and rises while it is
too sure. All is NumPy in float64.
"""

import math

import keras
import numpy as np

from keras_likelihood.regularizers.class_outputs import (
    class_shares,
    mean_of,
    only_softmax,
)
from keras_likelihood.regularizers.d_ridge import has_one_scale

_ROWS = 256
_LARGEST_MOVE = 0.5
_GAIN = 4.0
_LEAST = 0.01
_HALVINGS = 8


class Confidence:
    """Learns the factor on the strengths of a network.

    The logits of an example that was left out of the training are nearly

        logits + k (p - y),    k = df / sum_i sum_c p_ic (1 - p_ic)

    with the probabilities `p`, the shares `y` of the classes and the degrees
    of freedom `df` of all weights: `k` is how far logits move if an example
    pulls at them, on average. The network is too unsure if these logits have
    a best temperature below 1. At a factor of 1 the strengths are those of
    the evidence. The factor does not exceed it.

    Args:
        model: any model.
        outcomes: function from the model's output to a list of
            `(distribution, alone, weight)`.
        examples: function that returns `(x, y)`, inputs and targets of the
            model, or `None`.
    """

    def __init__(self, model, outcomes, examples):
        self._model = model
        self._outcomes = outcomes
        self._examples = examples
        self._applies = True
        self.factor = 1.0

    def update(self, weights, curvatures):
        """Moves the factor by what the examples say.

        Args:
            weights: variables with a `DRidge`.
            curvatures: the `Curvature` of each.
        """
        known = all(c.is_known for c in curvatures)
        if not self._applies or not known or not _can_be_eased(weights):
            return
        seen = self._seen()
        if seen is None:
            self._applies = False
            return
        logits, shares = seen
        mean = mean_of(logits)
        spread = np.mean(np.sum(mean * (1.0 - mean), axis=1))
        examples = curvatures[0].num_examples
        give = _freedom(weights, curvatures) / max(examples * spread, 1e-30)
        logits = logits + give * (mean - shares)
        move = math.log(self.factor) + confidence_move(logits, shares)
        self.factor = math.exp(min(max(move, math.log(_LEAST)), 0.0))

    def _seen(self):
        """Logits and shares of the classes, both `(examples, classes)`."""
        drawn = self._examples()
        if drawn is None or len(keras.tree.flatten(drawn[1])) != 1:
            return None
        count = len(keras.tree.flatten(drawn)[0])
        size = count // math.ceil(count / _ROWS)
        found = []
        # Pieces of one size: JAX compiles each operation for each shape.
        for start in range(0, count - size + 1, size):
            x, y = keras.tree.map_structure(
                lambda a, start=start: keras.ops.convert_to_numpy(
                    a[start : start + size]
                ),
                drawn,
            )
            seen = self._seen_in(x, keras.tree.flatten(y)[0])
            if seen is None:
                return None
            found.append(seen)
        return tuple(
            np.concatenate(parts) for parts in zip(*found, strict=True)
        )

    def _seen_in(self, x, y):
        output = self._model(x, training=False)
        distribution = only_softmax(self._outcomes(output))
        if distribution is None:
            return None
        logits = keras.ops.convert_to_numpy(distribution.logits)
        shares = class_shares(y, logits.shape)
        if shares is None or not np.all(np.isfinite(logits)):
            return None
        logits = logits.reshape(shares.shape).astype("float64")
        return logits, shares


def confidence_move(logits, shares) -> float:
    """How far to move the logarithm of the factor.

    Args:
        logits: of examples left out, `(examples, classes)`.
        shares: the share of each class, the same shape.

    Returns:
        A multiple of the logarithm of the best temperature, at most 0.5 and
        at least -0.5.
    """
    low, high = -_LARGEST_MOVE, _LARGEST_MOVE
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        scaled = logits * math.exp(-middle / _GAIN)
        # Slope of the log-loss: above 0 a higher temperature is better.
        if np.sum((mean_of(scaled) - shares) * scaled) > 0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _can_be_eased(weights):
    return len(weights) > 1 and all(
        has_one_scale(w.regularizer) for w in weights
    )


def _freedom(weights, curvatures):
    """Degrees of freedom of all weights together.

    Layers share what they fit. The curvature of all weights is at most that
    of each alone, times their number, so that this is a lower bound.
    """
    total = 0.0
    for weight, curvature in zip(weights, curvatures, strict=True):
        found = curvature.eigenvalues(weight.regularizer._current_noise())
        prior = weight.regularizer.scale().item() ** -2.0
        total += np.sum(found / (len(weights) * found + prior))
    return total
