"""MacKay's fixed point for the strength of a prior (MacKay, 1992)."""

import numpy as np

STRONGEST = 1e9


def updated_strength(curvature, weights, alpha, largest_move=100.0, lean=None):
    """The fixed point of the quadratic model around the present fit.

    In that model, a precision of `alpha'` multiplies the weights of eigenvalue
    lambda by (lambda + alpha) / (lambda + alpha'). So the fixed point needs no
    new fit.

    Args:
        curvature: a `Curvature` of the weights.
        weights: array of the shape of its eigenvalues, fitted under `alpha`.
        alpha: present precision of the prior.
        largest_move: largest factor between `alpha` and the result. The
            quadratic model is not valid far from the present fit.
        lean: function of the precision that a hyper-prior adds to the
            effective number of weights, or `None`.

    Returns:
        `(precision, effective number of weights)`.
    """
    values = curvature.values
    present = curvature.to_coordinates(weights)
    low, high = alpha / largest_move, alpha * largest_move
    new = alpha
    for _ in range(100):
        effective = np.sum(values / (values + new))
        moved = present * (values + alpha) / (values + new)
        count = effective
        if lean is not None:
            count = max(count + lean(new), 0.5 * count)
        target = count / max(np.sum(moved**2), 1e-12)
        target = float(np.clip(np.clip(target, 1e-6, STRONGEST), low, high))
        if abs(np.log(target / new)) < 1e-3:
            return target, float(effective)
        new = target
    return new, float(effective)
