"""Scales of normal and Laplace priors, from the curvature of the likelihood.

Each function returns `(scale, freedom, precision)`: the new scales, the
effective degrees of freedom of the weights (for a Laplace prior, the number of
active weights), and the marginal precision of a weight.
"""

import math

import numpy as np

from keras_likelihood.regularizers.penalised_fit import updated_strength

RESOLUTION = 0.1
"""Weights below this fraction of their standard error count as zero."""

_ROUNDS = 3
_SMALLEST = 1e-30
_ERF = np.vectorize(math.erf, otypes=["float64"])


def lasso_scale(weight, scale, curvature, num_examples):
    """The scale `b` of a Laplace prior with the smallest squared error.

    `1 / (b h)` is the soft threshold with the smallest squared error of the
    weights, by Stein's (1981) unbiased estimate (see `best_threshold`). `b` is
    at most the mean size of the active weights, and at least the scale at which
    pure noise is switched off (Donoho and Johnstone, 1995).
    """
    on, seen, precision = _active(weight, curvature, num_examples)
    # Correct for active weights that are too small to detect. Their density
    # at zero is the density of the Laplace prior.
    root = np.mean(np.sqrt(precision))
    unseen = RESOLUTION / (root * np.max(scale))
    freedom = min(seen * (1.0 + min(unseen, 0.5)), num_examples - 1.0)
    precision = precision * (num_examples - freedom) / (num_examples - seen)
    root = np.mean(np.sqrt(precision))
    axes = tuple(i for i, n in enumerate(scale.shape) if n == 1)
    members = weight.size / scale.size
    counts = np.sum(on, axis=axes, keepdims=True)
    ratio = max(freedom / max(np.sum(on), 1.0), 1.0)
    # The fraction of the whole tensor counts as one more weight of a group.
    share = (counts * ratio + freedom / weight.size) / (members + 1.0)
    share = np.clip(share, 0.5 / weight.size, 1.0 - 0.5 / weight.size)
    # Approximate maximum of `weight.size` standard normals.
    highest = math.sqrt(2.0 * math.log(max(weight.size, 2)))
    threshold = np.minimum(best_threshold(share), highest)
    size = np.sum(on * np.abs(weight), axis=axes, keepdims=True)
    size = size / np.maximum(counts, 1.0)
    found = np.minimum(1.0 / (threshold * root), size)
    return np.maximum(found, 1.0 / (highest * root)), freedom, precision


def multi_lasso_scale(weight, scale, curvature, num_examples):
    """The scale `b_j` of every weight, with an inverse-gamma hyper-prior.

        b_j = (|w_j| + c) / A,    A = T^2,    c = T / sqrt(h)

    `T^2` is the gain in log-likelihood that a weight needs to be active (see
    `price_of_a_weight`). With this `c` weights leave zero continuously, so the
    result does not depend on the initial weights.
    """
    on, freedom, precision = _active(weight, curvature, num_examples)
    price = price_of_a_weight(weight, on, precision)
    least = np.sqrt(price / precision)
    return (np.abs(weight) + least) / price, freedom, precision


def price_of_a_weight(weight, on, precision) -> float:
    """Gain `T^2` in 2 log-likelihood that a weight needs to be active.

        T^2 = 2 log((P - K) / K) + 2 log(B sqrt(h)),    at least 1

    for `K` of `P` weights active, of mean size `B`. The first term is the prior
    odds of being inactive, the second the Occam factor of a slab of width `B`
    and a posterior width `1/sqrt(h)`. Early in training the price is low, so
    training starts with weak regularization for any initial weights and noise.
    """
    count = float(np.sum(on))
    size = np.sum(on * np.abs(weight)) / max(count, 1.0)
    count = min(max(count, 0.5), weight.size - 0.5)
    odds = (weight.size - count) / count
    width = size * np.sqrt(np.mean(precision))
    return max(2.0 * np.log(odds) + 2.0 * np.log(width + 1e-12), 1.0)


def best_threshold(share_on):
    """Soft threshold, in units of `1/sqrt(h)`, of the smallest squared error.

    Stein's unbiased estimate of the error of soft thresholding is stationary
    where `threshold * (number on) = density of measurements at the threshold`.
    The inactive weights determine this density. If they are Gaussian and lie
    between the two thresholds,

        t (1 - 2 Phi(-t)) / (2 phi(t)) = (1 - share_on) / share_on

    For weights that follow a Laplace prior of scale b, wider than the noise,
    this is `t / sqrt(h) = 1 / (h b)`. It is solved by Newton's method for
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


def _active(weight, curvature, num_examples):
    """Mask and number of the active weights, and the precision `h` of each.

    `h_j` is the curvature of a weight if the active weights may move as well (a
    Schur complement). For independent inputs it is `(n - df) / noise^2`.
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
            precision = _schur(whole, on.ravel()).reshape(weight.shape)
        precision = np.maximum(precision, diagonal / num_examples)
    return on, freedom, precision


def _schur(whole, on):
    """Curvature of each entry if the entries `on` may move as well."""
    found = np.diagonal(whole).copy()
    if not np.any(on):
        return found
    inside = whole[np.ix_(on, on)]
    jitter = 1e-7 * np.trace(inside) / len(inside)
    inverse = np.linalg.inv(inside + jitter * np.eye(len(inside)))
    cross = whole[np.ix_(~on, on)]
    found[~on] -= np.sum((cross @ inverse) * cross, axis=1)
    found[on] = 1.0 / np.maximum(np.diagonal(inverse), _SMALLEST)
    return found


def ridge_scale(weight, scale, curvature, num_examples):
    """MacKay's (1992) fixed point for the scale `s` of a normal prior.

        s^2 = sum_j w_j^2 / df,    df = sum_i l_i / (l_i + 1 / s^2)

    over the eigenvalues `l_i` of the curvature. `df` is the effective number of
    weights. With fewer examples than weights the evidence can hardly separate
    signal from noise, so there is a weak hyper-prior: `log(s)` is normal with
    standard deviation 1 around the scale at which the weights explain as much
    variance as the noise. It counts as one observation.
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
    # At this bound all weights together use one degree of freedom.
    alpha = min(alpha, precision * weight.size)
    return np.full(scale.shape, alpha**-0.5), freedom, precision


def multi_ridge_scale(weight, scale, curvature, num_examples):
    """The scale `s_j` of every weight, with an inverse-gamma hyper-prior.

        s_j^2 = (w_j^2 + c^2) / A,    A = T^2 / 4,    c^2 = A / (8 h)

    `T^2` is the gain in log-likelihood that a weight needs to be active (see
    `price_of_a_weight`). This is the smallest `c` for which weights leave zero
    continuously. Weights that the data do not need are shrunk by a factor of
    nine.
    """
    known, precision = _known(weight, scale, curvature, num_examples)
    price = price_of_a_weight(weight, known > 0.2, precision)
    price = max(0.25 * price, 1.0)
    found = np.sqrt((weight**2 + price / (8.0 * precision)) / price)
    return found, np.sum(known), precision


def _known(weight, scale, curvature, num_examples):
    """Effective degrees of freedom of each weight, and its precision."""
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
