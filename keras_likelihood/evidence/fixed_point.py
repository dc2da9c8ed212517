"""MacKay's fixed point for the strength of a prior (MacKay, 1992)."""

import numpy as np

STRONGEST = 1e9
_MOST_DIRECTIONS = 5000


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
    values, squares, counts = _binned(
        curvature.values.ravel(), curvature.to_coordinates(weights).ravel() ** 2
    )
    low, high = alpha / largest_move, alpha * largest_move
    new = alpha
    for _ in range(100):
        effective = np.sum(counts * values / (values + new))
        moved = squares * ((values + alpha) / (values + new)) ** 2
        count = effective
        if lean is not None:
            count = max(count + lean(new), 0.5 * count)
        target = count / max(np.sum(moved), 1e-12)
        target = float(np.clip(np.clip(target, 1e-6, STRONGEST), low, high))
        if abs(np.log(target / new)) < 1e-3:
            return target, float(effective)
        new = target
    return new, float(effective)


def _binned(values, squares):
    """Sums of many eigendirections over those of nearly equal eigenvalue.

    Returns:
        `(eigenvalues, sums of squared coordinates, counts)`.
    """
    if values.size <= _MOST_DIRECTIONS:
        return values, squares, np.ones_like(values)
    largest = max(values.max(), 1e-300)
    # Two hundred bins a decade; what is below 1e-10 of the largest is zero.
    bins = np.log10(np.maximum(values / largest, 1e-10)) * 200.0
    bins = np.round(bins).astype(int) + 2000
    counts = np.bincount(bins)
    found = counts > 0
    means = np.bincount(bins, values)[found] / counts[found]
    return means, np.bincount(bins, squares)[found], counts[found]
