"""The von Mises likelihood: angles."""

import functools
import math

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.angles import i0e, i1e, sin
from keras_likelihood.backend.clip import clip
from keras_likelihood.backend.compiled import compiled
from keras_likelihood.backend.probability import tfp_distributions
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods.inversion import solve
from keras_likelihood.likelihoods.likelihood import Likelihood
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import floor

_WIDTHS = 9.0
_NODES = 48
_GROUP = 12


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
        half = 0.5 * (self._check_target(y) - self.prediction)
        kappa = self.concentration
        partition = math.log(2 * math.pi) + ops.log(i0e(kappa))
        return 2 * kappa * ops.square(sin(half)) + partition

    @classmethod
    def check_targets(cls, y, prediction_shape):
        super().check_targets(y, prediction_shape)
        y = np.asarray(y)
        cls._refuse_targets(y, ~np.isfinite(y), "finite angles in radians")

    def cdf(self, y):
        angle = wrapped(self._check_target(y) - self.prediction)
        return _cdf(self.concentration, angle)

    def quantile(self, p):
        p = ops.convert_to_tensor(p, dtype=self.prediction.dtype)
        return self.prediction + _quantile(self.concentration, p)

    def sample(self, count=None, seed=None):
        """Draws angles in (-pi, pi]."""
        uniform = keras.random.uniform(
            self._sample_shape(count), dtype=self.prediction.dtype, seed=seed
        )
        tiny = 2.0**-24
        drawn = _quantile(self.concentration, clip(uniform, tiny, 1 - tiny))
        return wrapped(self.prediction + drawn)

    def mean(self):
        """Mean direction: the prediction, in (-pi, pi]."""
        return wrapped(self.prediction)

    def information(self):
        """`concentration I1 / I0`, Bessel functions of the concentration."""
        kappa = self.concentration
        each = kappa * i1e(kappa) / i0e(kappa)
        return ops.broadcast_to(each, ops.shape(self.prediction))

    def to_tfp(self):
        return tfp_distributions().VonMises(self.prediction, self.concentration)


def wrapped(angle):
    """The same angle in (-pi, pi]."""
    turns = -floor(0.5 - angle / (2 * math.pi))
    return angle - 2 * math.pi * ops.stop_gradient(turns)


@functools.cache
def _rule(dtype, rank):
    """Groups of nodes and weights in [0, 1], on an axis before all others.

    One group is used at a time, so that memory stays small.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    pairs = np.stack([0.5 * (nodes + 1), 0.5 * weights]).astype(dtype)
    groups = pairs.reshape(2, -1, _GROUP, *(1,) * rank)
    return list(zip(*groups, strict=True))


def _tails(kappa, angle):
    """Shares of the circle below and above an angle in [-pi, pi]."""
    size = ops.abs(angle)
    # The density is 0 so many standard deviations away.
    end = clip(_WIDTHS / ops.sqrt(kappa), 0.0, 4.0)
    share = _integral(kappa, ops.where(size < end, size, end))
    share = share / (2 * math.pi * i0e(kappa))
    tail = clip(0.5 - share, 0.0, 0.5)
    left = angle < 0
    return ops.where(left, tail, 1 - tail), ops.where(left, 1 - tail, tail)


def _integral(kappa, end):
    """Integral of `exp(kappa (cos(x) - 1))` from 0 to `end`."""
    total = ops.zeros_like(end)
    for node, weight in _rule(ops.dtype(end), len(end.shape)):
        node, weight = map(ops.convert_to_tensor, (node, weight))
        sine = sin(0.5 * node * end)
        terms = weight * ops.exp(-2 * kappa * sine * sine)
        total = total + ops.sum(terms, axis=0)
    return end * total


def _below(kappa, angle):
    return _tails(kappa, angle)[0]


def _solve(kappa, p):
    def density(v):
        sine = sin(0.5 * v)
        height = ops.exp(-2 * kappa * sine * sine)
        return height / (2 * math.pi * i0e(kappa))

    return solve(lambda v: _tails(kappa, v), density, p, -math.pi, math.pi)


_cdf = compiled(_below, static=0)
_quantile = compiled(_solve, static=0)
