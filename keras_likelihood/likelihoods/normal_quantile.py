"""The quantile of the standard normal, exact in the tails."""

import math

from keras import ops

from keras_likelihood.likelihoods.tails import log_normal_cdf


def normal_quantile(p):
    """Quantile of the standard normal, to nearly full precision of `p`."""
    tail = ops.where(p < 0.5, p, 1 - p)
    # The logarithm of 0 has no gradient.
    found = normal_log_quantile(ops.log(ops.where(tail == 0, 0.25, tail)))
    found = ops.where(tail == 0, -math.inf, found)
    return ops.sign(0.5 - p) * found


def normal_log_quantile(log_p):
    """The `z <= 0` whose lower tail has the logarithm `log_p <= log(1/2)`.

    Newton's method starts from formula 26.2.23 of Abramowitz and Stegun, whose
    error is below 5e-4. The last step gives the gradient.
    """
    is_end = log_p == -math.inf
    log_p = ops.where(is_end, math.log(0.25), log_p)
    t = ops.sqrt(-2 * ops.stop_gradient(log_p))
    above = 2.515517 + t * (0.802853 + t * 0.010328)
    below = 1 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    z = above / below - t
    for _ in range(4 if ops.dtype(log_p) == "float64" else 3):
        z = ops.stop_gradient(z)
        value = log_normal_cdf(z)
        slope = ops.exp(-0.5 * z * z - ops.stop_gradient(value))
        z = z - (value - log_p) * math.sqrt(2 * math.pi) / slope
    return ops.where(is_end, -math.inf, z)
