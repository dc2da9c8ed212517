"""How far the predicted scales of a regressor can be trusted."""

import keras
import numpy as np

from keras_likelihood.likelihoods import LocationScale

_LEAST = 25
"""With at least so many examples a part of them decides the trust."""
_SHARE = 5
"""One in so many examples decides."""
_GRID = np.linspace(0, 1, 41)
_MIDDLE, _SPREAD = 0.5, 0.3
"""Prior of the trust, which matters if there are few examples."""


def choose_trust(distribution, y, trust, seed: int):
    """Chooses the trust, and the examples that are left for calibration.

    Args:
        distribution: a `Likelihood`.
        y: targets, of the prediction's shape.
        trust: `"auto"`, or a number in [0, 1].
        seed: the random seed of the choice of the examples that decide.

    Returns:
        `(trust, units, kept)`. The first two are as in `tempered`, with an
        entry for each output. `kept` are the rows that are left for
        calibration.
    """
    auto = trust == "auto"
    kept = np.ones(len(y), bool)
    few = auto and len(y) < _LEAST
    if trust == 1 or few or not isinstance(distribution, LocationScale):
        return np.array(1.0), {}, kept
    values = {
        p.name: np.broadcast_to(
            keras.ops.convert_to_numpy(getattr(distribution, p.name)), y.shape
        ).astype("float64")
        for p in distribution.parameters
    }
    if all(np.ptp(v, axis=0).max() == 0 for v in values.values()):
        return np.array(1.0), {}, kept
    order = np.random.default_rng(seed).permutation(len(y))
    # One example is enough for the units, but not for the trust.
    rows = order[: len(y) // _SHARE if auto else 1]
    kept[rows] = False
    units = {name: np.median(v[rows], axis=0) for name, v in values.items()}
    found = np.full(y.shape[1:], 1.0 if auto else trust)
    if auto:
        residuals = y - keras.ops.convert_to_numpy(distribution.prediction)
        for place in np.ndindex(found.shape):
            at = (rows, *place)
            found[place] = fit_trust(residuals[at], values["scale"][at])
    return found, units, kept


def fit_trust(residuals, scale) -> float:
    """The power of the scale that fits the residuals best.

        residual ~ Laplace(0, c scale^trust),    trust in [0, 1]

    The trust has a normal prior around 0.5. It is 1 if the scales are right,
    and lower if a network has overfitted them.

    Args:
        residuals: targets minus predictions, `(n,)`.
        scale: predicted scales, `(n,)`.
    """
    size = np.maximum(np.abs(residuals), 1e-30)
    logs = np.log(scale) - np.mean(np.log(scale))
    nll = [
        len(size) * np.log(np.mean(size * np.exp(-trust * logs)))
        + trust * logs.sum()
        + 0.5 * ((trust - _MIDDLE) / _SPREAD) ** 2
        for trust in _GRID
    ]
    return float(_GRID[np.argmin(nll)])
