"""What the data tell about the weights, from a curvature that was measured.

The counterparts of `evidence.smooth_evidence` and `sparse_evidence`, which
assume the curvature. Here the precision `h_j` of a weight, seen alone, is what
is left of its curvature when the other weights may move as well. All is NumPy
in float64.
"""

import numpy as np

from keras_likelihood.regularizers.evidence import RESOLUTION, Evidence

_ROUNDS = 3
_SMALLEST = 1e-30


def measured_smooth_evidence(weight, scale, curvature, noise) -> Evidence:
    """Evidence under an L2 prior of standard deviations `scale`.

    With the eigenvalues `lambda_i` of the curvature and one scale,

        df = sum_i lambda_i scale^2 / (1 + lambda_i scale^2)

    Args:
        weight: array.
        scale: array that broadcasts with it.
        curvature: a `Curvature` of this weight.
        noise: scale of the likelihood, 1 if it has none.
    """
    prior = np.broadcast_to(scale**-2.0, weight.shape)
    if scale.size == 1:
        found = curvature.eigenvalues(noise)
        known = np.mean(found / (found + 1.0 / scale.item() ** 2))
        known = np.broadcast_to(known, weight.shape)
    elif curvature.is_matrix:
        inverse = _inverse(curvature.matrix(noise) + np.diag(prior.ravel()))
        known = 1.0 - np.diagonal(inverse).reshape(weight.shape) * prior
    else:
        diagonal, used = curvature.diagonal(noise), 0.0
        for _ in range(_ROUNDS):
            seen = diagonal * max(1.0 - used / curvature.num_examples, 0.05)
            known = seen / (seen + prior)
            used = np.sum(known)
    known = np.clip(known, 1e-12, 1.0 - 1e-9)
    axes = tuple(i for i, n in enumerate(scale.shape) if n == 1)
    on = np.sum(known, axis=axes, keepdims=True) > 0.2
    on = np.broadcast_to(on, weight.shape).astype("float64")
    precision = known / (1.0 - known) * prior
    return Evidence(precision, float(np.sum(known)), on)


def measured_sparse_evidence(weight, curvature, noise) -> Evidence:
    """Evidence under an L1 prior, where `df` counts the weights left on.

    `h_j` is the curvature that is left when the weights that are on may move
    as well: a Schur complement. For independent inputs it is
    `(n - df) / noise^2`.
    """
    diagonal = np.maximum(curvature.diagonal(noise), _SMALLEST)
    whole = curvature.matrix(noise) if curvature.is_matrix else None
    most = curvature.num_examples - 1.0
    precision, before = diagonal, None
    for _ in range(_ROUNDS):
        on = np.abs(weight) > RESOLUTION / np.sqrt(precision)
        if before is not None and np.array_equal(on, before):
            break
        before = on
        freedom = min(float(np.sum(on)), most)
        if whole is None:
            precision = diagonal * (1.0 - freedom / curvature.num_examples)
        else:
            precision = _left_over(whole, on.ravel()).reshape(weight.shape)
        precision = np.maximum(precision, diagonal / curvature.num_examples)
    return Evidence(precision, freedom, on.astype("float64"))


def _left_over(whole, on):
    """Curvature of each entry when the entries `on` are free to move."""
    found = np.diagonal(whole).copy()
    if not np.any(on):
        return found
    inverse = _inverse(whole[np.ix_(on, on)])
    beside = whole[np.ix_(~on, on)]
    found[~on] -= np.sum((beside @ inverse) * beside, axis=1)
    found[on] = 1.0 / np.maximum(np.diagonal(inverse), _SMALLEST)
    return found


def _inverse(matrix):
    jitter = 1e-7 * np.trace(matrix) / len(matrix)
    return np.linalg.inv(matrix + jitter * np.eye(len(matrix)))
