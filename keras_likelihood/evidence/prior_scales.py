"""Scales of normal and Laplace priors, from the curvature of the likelihood.

Each function returns `(scale, freedom, precision)`: the new scales, the
degrees of freedom that the weights use (for a Laplace prior, how many are on),
and the inverse variance of a weight, seen alone.
"""

import math

import numpy as np

from keras_likelihood.evidence.penalised_fit import updated_strength

RESOLUTION = 0.1
"""A weight below this share of its own uncertainty counts as zero."""

_ROUNDS = 3
_SMALLEST = 1e-30
_ERF = np.vectorize(math.erf, otypes=["float64"])


def lasso_scale(weight, scale, curvature, num_examples):
    """The scale `b` of a Laplace prior with the least squared error.

    `1 / (b h)` is the soft threshold with the least squared error of the
    weights, by Stein's (1981) unbiased estimate (see `best_threshold`). `b` is
    never above the mean size of the weights that are on, and never below the
    scale at which pure noise is switched off (Donoho and Johnstone, 1995).
    """
    on, seen, precision = _on(weight, curvature, num_examples)
    # Weights on but too small to be seen: their density at zero is that of
    # the Laplace prior.
    root = np.mean(np.sqrt(precision))
    unseen = RESOLUTION / (root * np.max(scale))
    freedom = min(seen * (1.0 + min(unseen, 0.5)), num_examples - 1.0)
    precision = precision * (num_examples - freedom) / (num_examples - seen)
    root = np.mean(np.sqrt(precision))
    axes = tuple(i for i, n in enumerate(scale.shape) if n == 1)
    members = weight.size / scale.size
    counts = np.sum(on, axis=axes, keepdims=True)
    ratio = max(freedom / max(np.sum(on), 1.0), 1.0)
    # A small group leans on the whole tensor as one more weight would.
    share = (counts * ratio + freedom / weight.size) / (members + 1.0)
    share = np.clip(share, 0.5 / weight.size, 1.0 - 0.5 / weight.size)
    # The largest of so many standard normals, nearly.
    highest = math.sqrt(2.0 * math.log(max(weight.size, 2)))
    threshold = np.minimum(best_threshold(share), highest)
    size = np.sum(on * np.abs(weight), axis=axes, keepdims=True)
    size = size / np.maximum(counts, 1.0)
    found = np.minimum(1.0 / (threshold * root), size)
    return np.maximum(found, 1.0 / (highest * root)), freedom, precision


def multi_lasso_scale(weight, scale, curvature, num_examples):
    """The scale `b_j` of every weight, with an inverse-gamma hyper-prior.

        b_j = (|w_j| + c) / A,    A = T^2,    c = T / sqrt(h)

    `T^2` is the gain in log-likelihood that a weight needs to be on (see
    `price_of_a_weight`). With this `c` a weight can leave zero without a
    jump, so the result does not depend on the start of the training.
    """
    on, freedom, precision = _on(weight, curvature, num_examples)
    price = price_of_a_weight(weight, on, precision)
    least = np.sqrt(price / precision)
    return (np.abs(weight) + least) / price, freedom, precision


def price_of_a_weight(weight, on, precision) -> float:
    """Gain `T^2` in 2 log-likelihood that a weight needs to be on.

        T^2 = 2 log((P - K) / K) + 2 log(B sqrt(h)),    at least 1

    for `K` of `P` weights on, of mean size `B`: the prior odds of being off,
    and the Occam factor of a slab `B` wide known to a width `1/sqrt(h)`. While
    nothing is known yet the price is low, so that training starts with weak
    regularization whatever the initial weights and noise.
    """
    count = float(np.sum(on))
    size = np.sum(on * np.abs(weight)) / max(count, 1.0)
    count = min(max(count, 0.5), weight.size - 0.5)
    odds = (weight.size - count) / count
    width = size * np.sqrt(np.mean(precision))
    return max(2.0 * np.log(odds) + 2.0 * np.log(width + 1e-12), 1.0)


def best_threshold(share_on):
    """Soft threshold, in units of `1/sqrt(h)`, of the least squared error.

    Stein's unbiased estimate of the error of soft thresholding is stationary
    where `threshold * (number on) = density of measurements at the threshold`.
    The weights that are off determine that density: a Gaussian puts them
    between the two thresholds, so that

        t (1 - 2 Phi(-t)) / (2 phi(t)) = (1 - share_on) / share_on

    For weights that do follow a Laplace prior wider than the noise this is
    `t / sqrt(h) = 1 / (h b)`, their own scale. Solved by Newton's method for
    log t.
    """
    odds = (1.0 - share_on) / share_on
    t = np.sqrt(2.0 * np.log1p(0.5 * odds))
    for _ in range(5):
        inside = _ERF(t * math.sqrt(0.5))
        log_phi = -0.5 * t**2 - 0.5 * math.log(2 * math.pi)
        excess = np.log(t * inside) - math.log(2.0) - log_phi - np.log(odds)
        slope = 1.0 + 2.0 * t * np.exp(log_phi) / inside + t**2
        t = t * np.exp(-excess / slope)
    return t


def _on(weight, curvature, num_examples):
    """Which weights are on, how many, and the precision `h` of each.

    `h_j` is the curvature that is left when the weights that are on may move
    as well: a Schur complement. For independent inputs it is
    `(n - df) / noise^2`.
    """
    diagonal = curvature.diagonal().reshape(weight.shape)
    diagonal = np.maximum(diagonal, _SMALLEST)
    whole = curvature.matrix() if curvature.is_small else None
    precision, before = diagonal, None
    for _ in range(_ROUNDS):
        on = np.abs(weight) > RESOLUTION / np.sqrt(precision)
        if before is not None and np.array_equal(on, before):
            break
        before = on
        freedom = min(float(np.sum(on)), num_examples - 1.0)
        if whole is None:
            precision = diagonal * (1.0 - freedom / num_examples)
        else:
            precision = _left_over(whole, on.ravel()).reshape(weight.shape)
        precision = np.maximum(precision, diagonal / num_examples)
    return on, freedom, precision


def _left_over(whole, on):
    """Curvature of each entry when the entries `on` are free to move."""
    found = np.diagonal(whole).copy()
    if not np.any(on):
        return found
    inside = whole[np.ix_(on, on)]
    jitter = 1e-7 * np.trace(inside) / len(inside)
    inverse = np.linalg.inv(inside + jitter * np.eye(len(inside)))
    beside = whole[np.ix_(~on, on)]
    found[~on] -= np.sum((beside @ inverse) * beside, axis=1)
    found[on] = 1.0 / np.maximum(np.diagonal(inverse), _SMALLEST)
    return found


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
        known, precision = _known(weight, scale, curvature, num_examples)
        axes = tuple(i for i, n in enumerate(scale.shape) if n == 1)
        share = np.mean(known, axis=axes, keepdims=True)
        mean = np.mean(weight**2, axis=axes, keepdims=True)
        least = 1.0 / (np.mean(precision) * weight.size)
        found = np.sqrt(np.maximum(mean / share, least))
        return found, np.sum(known), precision
    even = num_examples / np.sum(curvature.values)
    alpha, freedom = updated_strength(
        curvature,
        weight.reshape(curvature.values.shape),
        scale.item() ** -2.0,
        largest_move=np.e,
        lean=lambda alpha: -0.5 * np.log(alpha * even),
    )
    known = np.clip(freedom / weight.size, 1e-12, 1 - 1e-9)
    precision = known / (1 - known) * alpha
    # With a stronger prior all weights together use one degree of freedom.
    alpha = min(alpha, precision * weight.size)
    return np.full(scale.shape, alpha**-0.5), freedom, precision


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
