"""Scales of normal priors, from the curvature of the likelihood.

Each function returns `(scale, freedom, precision)`: the new scales, the
degrees of freedom that the weights use, and the inverse variance of a weight,
seen alone.
"""

import numpy as np

from keras_likelihood.evidence import updated_strength
from keras_likelihood.evidence.laplace_scales import price_of_a_weight

_ROUNDS = 3
_LARGEST_FACTOR = np.e


def ridge_scale(weight, scale, curvature, num_examples):
    """MacKay's (1992) fixed point for the scale `s` of a normal prior.

        s^2 = sum_j w_j^2 / df,    df = sum_i l_i / (l_i + 1 / s^2)

    over the eigenvalues `l_i` of the curvature. It counts only the weights
    that the data determine. With fewer examples than weights the evidence can
    hardly separate signal from noise. A weak hyper-prior then decides:
    `log(s)` is normal with deviation 1 around the scale at which the weights
    explain as much as the noise. It counts as one observation.
    """
    if scale.size > 1:
        return _group_scales(weight, scale, curvature, num_examples)
    even = num_examples / np.sum(curvature.values)

    def lean(alpha):
        return -0.5 * np.log(alpha * even)

    alpha, freedom = updated_strength(
        curvature,
        weight.reshape(curvature.values.shape),
        scale.item() ** -2.0,
        _LARGEST_FACTOR,
        lean,
    )
    known = np.clip(freedom / weight.size, 1e-12, 1 - 1e-9)
    precision = known / (1 - known) * alpha
    # With a stronger prior all weights together use one degree of freedom.
    alpha = min(alpha, precision * weight.size)
    return np.full(scale.shape, alpha**-0.5), freedom, precision


def _group_scales(weight, scale, curvature, num_examples):
    known, precision = _known(weight, scale, curvature, num_examples)
    axes = tuple(i for i, n in enumerate(scale.shape) if n == 1)
    share = np.mean(known, axis=axes, keepdims=True)
    mean = np.mean(weight**2, axis=axes, keepdims=True)
    least = 1.0 / (np.mean(precision) * weight.size)
    found = np.sqrt(np.maximum(mean / share, least))
    return found, np.sum(known), precision


def multi_ridge_scale(weight, scale, curvature, num_examples):
    """The scale `s_j` of every weight, with an inverse-gamma hyper-prior.

        s_j^2 = (w_j^2 + c^2) / A,    A = T^2 / 4,    c^2 = A / (8 h)

    `T^2` is the gain in log-likelihood that a weight needs to be on (see
    `price_of_a_weight`). This `c` is the smallest with which a weight can
    leave zero without a jump. Weights that the data do not need are shrunk by
    a factor of nine.
    """
    known, precision = _known(weight, scale, curvature, num_examples)
    price = price_of_a_weight(weight, known > 0.2, precision)
    price = max(0.25 * price, 1.0)
    found = np.sqrt((weight**2 + price / (8.0 * precision)) / price)
    return found, np.sum(known), precision


def _known(weight, scale, curvature, num_examples):
    """Share of each weight that the data determine, and its precision."""
    prior = np.broadcast_to(scale**-2.0, weight.shape)
    if curvature.is_small:
        whole = curvature.matrix() + np.diag(prior.ravel())
        jitter = 1e-7 * np.trace(whole) / len(whole)
        inverse = np.linalg.inv(whole + jitter * np.eye(len(whole)))
        known = 1.0 - np.diagonal(inverse).reshape(weight.shape) * prior
    else:
        diagonal, used = curvature.diagonal().reshape(weight.shape), 0.0
        for _ in range(_ROUNDS):
            seen = diagonal * max(1.0 - used / num_examples, 0.05)
            known = seen / (seen + prior)
            used = np.sum(known)
    known = np.clip(known, 1e-12, 1.0 - 1e-9)
    return known, known / (1.0 - known) * prior
