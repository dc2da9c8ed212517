"""The von Mises likelihood: angles."""

import functools
import math

import numpy as np
from keras import ops

from keras_likelihood.backend.operations import bessel, clip, sin
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.inversion import solve
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import floor
from keras_likelihood.likelihoods.tails import both_tails, safe_log

_WIDTHS = 13.0
_NODES = 48
_GROUP = 12
_TURN = 6.28125
"""The first eight binary digits of 2 pi, so that products are exact."""


class VonMises(Likelihood):
    """Von Mises distribution of angles in radians.

        nll(y) = concentration (1 - cos(y - prediction))
                 + log(2 pi exp(-concentration) I0(concentration))

    with I0 the modified Bessel function. It is like a normal distribution on
    the circle. For a high concentration its standard deviation is
    `1 / sqrt(concentration)`. Any real number is an angle, in targets and in
    predictions. Whole turns do not matter.

    `cdf` and `quantile` cut the circle opposite to the prediction. Quantiles
    lie within half a turn of the prediction, so that `lower < upper` in
    every interval, and may pass pi.

    Args:
        prediction: mean direction in radians, `(batch, ..., units)`.
        concentration: `> 0`. Defaults to 1.
    """

    parameters = (
        Parameter("concentration", ShiftedSoftplus(0.01), initial=1.0),
    )

    def nll(self, y):
        return self._angle_nll(self._angle(y))

    def _angle(self, y):
        """The angle from the prediction, in [-2 pi, 2 pi]."""
        # A difference of many turns would have few digits.
        return wrapped(self._check_target(y)) - wrapped(self.prediction)

    def _angle_nll(self, angle):
        kappa = self.concentration
        partition = math.log(2 * math.pi) + ops.log(bessel(0, kappa))
        return 2 * kappa * ops.square(sin(0.5 * angle)) + partition

    def log_tail(self, y, upper):
        angle = wrapped(self._angle(y))
        return self._compiled("_log_tail", angle, upper)

    def _log_tail(self, angle, upper):
        """The tail of an angle in [-pi, pi] from the prediction."""
        size = ops.where(angle < 0, -angle, angle)
        kappa = self.concentration
        # The density is 0 so many standard deviations away.
        end = clip(_WIDTHS / ops.sqrt(kappa), 0.0, math.pi)
        start = ops.where(size > end, end, size)
        tail = _integral(kappa, start, end - start)
        tail = tail / (2 * math.pi * bessel(0, kappa))
        below, above = both_tails(angle < 0, safe_log(tail))
        return ops.where(upper, above, below)

    def _solve(self, log_p, upper):
        zeros = ops.zeros_like(log_p + self.concentration)
        found = solve(
            lambda v: self._log_tail(v, upper),
            self._angle_nll,
            clip(log_p, -80.0, 0.0),
            upper,
            ops.where(upper, zeros, zeros - math.pi),
            ops.where(upper, zeros + math.pi, zeros),
        )
        end = ops.where(upper, math.pi, -math.pi)
        return self.prediction + ops.where(log_p < -80, end, found)

    def sample(self, count=None, seed=None):
        return wrapped(super().sample(count, seed))

    def mean(self):
        """Mean direction: the prediction, in (-pi, pi]."""
        return wrapped(self.prediction)

    def information(self):
        """`concentration I1 / I0`, Bessel functions of the concentration."""
        kappa = self.concentration
        each = kappa * bessel(1, kappa) / bessel(0, kappa)
        return ops.broadcast_to(each, ops.shape(self.prediction))

    def _as_tfp(self, tfp):
        return tfp.VonMises(self.prediction, self.concentration)


def wrapped(angle):
    """The same angle in (-pi, pi]."""
    turns = ops.stop_gradient(-floor(0.5 - angle / (2 * math.pi)))
    return angle - _TURN * turns - (2 * math.pi - _TURN) * turns


@functools.cache
def _rule(dtype, rank):
    """Nodes and weights in [0, 1], in groups, so that memory stays small."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    pairs = np.stack([0.5 * (nodes + 1), 0.5 * weights]).astype(dtype)
    groups = pairs.reshape(2, -1, _GROUP, *(1,) * rank)
    return list(zip(*groups, strict=True))


def _integral(kappa, start, width):
    """Integral of `exp(kappa (cos(x) - 1))` from `start` on."""
    total = ops.zeros_like(width)
    for node, weight in _rule(ops.dtype(width), len(width.shape)):
        node, weight = map(ops.convert_to_tensor, (node, weight))
        sine = sin(0.5 * (start + node * width))
        terms = weight * ops.exp(-2 * kappa * sine * sine)
        total = total + ops.sum(terms, axis=0)
    return width * total
