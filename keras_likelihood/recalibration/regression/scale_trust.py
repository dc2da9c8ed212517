"""How far the predicted scales of a regressor are to be trusted."""

import numpy as np

_GRID = np.linspace(0, 1, 41)
_MIDDLE, _SPREAD = 0.5, 0.3
"""Prior of the trust, for when examples are few."""


def fit_trust(residuals, scale) -> float:
    """The power of the scale that fits the residuals best.

        residual ~ Laplace(0, c scale^trust),    trust in [0, 1]

    with a normal prior around 0.5. It is 1 for scales that are right, and
    less where a network has overfitted them.

    Args:
        residuals: targets less predictions, `(n,)`.
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
