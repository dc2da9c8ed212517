"""The quantile of the standard normal, from the smaller tail."""

import math

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.likelihoods.tails import log_normal_cdf


def normal_quantile(p):
    """Quantile of the standard normal, to nearly full precision of `p`."""
    tail = ops.where(p < 0.5, p, 1 - p)
    # The logarithm of 0 has no gradient.
    log_p = ops.log(ops.where(tail == 0, 0.25, tail))
    found = _quantile(-ops.abs(p - 0.5), log_p)
    found = ops.where(tail == 0, -math.inf, found)
    return ops.where(p < 0.5, found, -found)


def normal_log_quantile(log_p):
    """The `z <= 0` whose lower tail has the logarithm `log_p <= log(1/2)`."""
    return _quantile(ops.exp(log_p) - 0.5, log_p)


def _quantile(centre, log_p):
    """Wichura's algorithm AS 241 (1988), for the lower half.

    It is one quotient of polynomials around the median and two in
    `r = sqrt(-log_p)`. Further out Newton's method continues.

    Args:
        centre: the probability minus 1/2.
        log_p: the logarithm of the probability.
    """
    middle = centre * _quotient(_MIDDLE, 0.180625 - ops.square(centre))
    r = ops.sqrt(clip(-log_p, 0.1, 1e30))
    # The argument of each quotient is clipped to its range. So the gradients
    # of those that are not selected stay finite.
    near = _quotient(_NEAR, clip(r, 0.8, 5.0) - 1.6)
    far = _quotient(_FAR, clip(r, 5.0, 28.0) - 5.0)
    outer = ops.where(r < 5, -near, -far)
    size = 2 * ops.square(clip(r, 20.0, 1e15))
    farthest = -ops.sqrt(size - ops.log(2 * math.pi * size))
    for _ in range(3):
        gap = log_normal_cdf(farthest) + 0.5 * size
        farthest = farthest + gap / farthest
    outer = ops.where(r < 27.5, outer, farthest)
    outer = ops.where(log_p > -math.inf, outer, -math.inf)
    # A tail that is NaN has no quantile.
    outer = ops.where(ops.isnan(log_p), log_p, outer)
    return ops.where(centre >= -0.425, middle, outer)


def _quotient(coefficients, x):
    above, below = (0.0 * x + c[-1] for c in coefficients)
    for a, b in zip(*(reversed(c[:-1]) for c in coefficients), strict=True):
        above, below = above * x + a, below * x + b
    return above / below


# Numerator and denominator, lowest power first.
_MIDDLE = (
    (
        3.3871328727963666080,
        1.3314166789178437745e2,
        1.9715909503065514427e3,
        1.3731693765509461125e4,
        4.5921953931549871457e4,
        6.7265770927008700853e4,
        3.3430575583588128105e4,
        2.5090809287301226727e3,
    ),
    (
        1.0,
        4.2313330701600911252e1,
        6.8718700749205790830e2,
        5.3941960214247511077e3,
        2.1213794301586595867e4,
        3.9307895800092710610e4,
        2.8729085735721942674e4,
        5.2264952788528545610e3,
    ),
)
_NEAR = (
    (
        1.42343711074968357734,
        4.63033784615654529590,
        5.76949722146069140550,
        3.64784832476320460504,
        1.27045825245236838258,
        2.41780725177450611770e-1,
        2.27238449892691845833e-2,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187,
        1.67638483018380384940,
        6.89767334985100004550e-1,
        1.48103976427480074590e-1,
        1.51986665636164571966e-2,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_FAR = (
    (
        6.65790464350110377720,
        5.46378491116411436990,
        1.78482653991729133580,
        2.96560571828504891230e-1,
        2.65321895265761230930e-2,
        1.24266094738807843860e-3,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        5.99832206555887937690e-1,
        1.36929880922735805310e-1,
        1.48753612908506148525e-2,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)
