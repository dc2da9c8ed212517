"""The von Mises likelihood of angles."""

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from keras_likelihood.backend.operations import bessel, clip, trigonometric
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import ShiftedSoftplus
from keras_likelihood.likelihoods import quadrature
from keras_likelihood.likelihoods.likelihood import Likelihood, compiled_method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.special import floor

_TURN = 6.28125
"""The first eight binary digits of 2 pi, for exact products."""
_FAR = 1e15
"""Limit above which a square could overflow, and `1 + t^2` equals `t^2`."""


class VonMises(Likelihood):
    """Von Mises distribution of angles in radians.

        nll(y) = concentration (1 - cos(y - prediction))
                 + log(2 pi exp(-concentration) I0(concentration))

    with I0 the modified Bessel function. For high concentrations it resembles a
    normal distribution of standard deviation `1 / sqrt(concentration)`. Targets
    and predictions are taken modulo 2 pi. `cdf` and `quantile` cut the circle
    opposite to the prediction, so quantiles may exceed pi.

    Args:
        prediction: mean direction in radians, `(batch, ..., units)`.
        concentration: `> 0`. Defaults to 1.
    """

    parameters = (Parameter("concentration", ShiftedSoftplus(0.01)),)

    def nll(self, y: Tensor) -> Tensor:
        sine = trigonometric("sin", 0.5 * self._angle(y))
        return 2 * self.concentration * ops.square(sine) + self._partition()

    def _angle(self, y: Tensor) -> Tensor:
        """The angle from the prediction, in [-2 pi, 2 pi]."""
        # The difference of two large angles would lose digits.
        return wrapped(y) - wrapped(self.prediction)

    def _partition(self) -> Tensor:
        return math.log(2 * math.pi) + ops.log(bessel(0, self.concentration))

    def _line(self) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """`width`, and the NLL of `z = width tan(angle / 2)`.

        The density of z decreases from 0 on and has about unit width. It is
        close to normal, or to Cauchy at low concentration.
        """
        width = ops.sqrt(1 + 4 * self.concentration)
        constant = self._partition() + ops.log(0.5 * width)

        def nll(z: Tensor) -> Tensor:
            t = ops.abs(z / width)
            square = ops.square(clip(t, 0.0, _FAR))
            slope = ops.log1p(square) + 2 * ops.log(clip(t / _FAR, 1.0, 1e37))
            sine_square = square / (1 + square)
            return 2 * self.concentration * sine_square + slope + constant

        return width, nll

    @compiled_method
    def log_tail(self, y: Tensor, upper: Tensor) -> Tensor:
        angle = wrapped(self._angle(y))
        width, nll = self._line()
        cosine = trigonometric("sin", 0.5 * (math.pi - ops.abs(angle)))
        tangent = trigonometric("sin", 0.5 * angle) / clip(cosine, 1e-25, 1.0)
        z = width * tangent
        return quadrature.log_cdf(nll, ops.where(upper, -z, z))

    def quantile(self, p: Tensor) -> Tensor:
        ends = self.prediction - math.pi, self.prediction + math.pi
        return clip(super().quantile(p), *ends)

    def tail_quantile(self, log_p: Tensor, upper: Tensor) -> Tensor:
        width, nll = self._line()
        z = quadrature.log_quantile(nll, log_p)
        angle = 2 * trigonometric("arctan", z / width)
        return self.prediction + ops.where(upper, -angle, angle)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        return wrapped(super().sample(count, seed))

    def mean(self) -> Tensor:
        """Mean direction: the prediction, in (-pi, pi]."""
        return wrapped(self.prediction)

    def information(self) -> Tensor:
        """`concentration I1(concentration) / I0(concentration)`."""
        kappa = self.concentration
        each = kappa * bessel(1, kappa) / bessel(0, kappa)
        return ops.broadcast_to(each, ops.shape(self.prediction))

    def _as_tfp(self, tfp: Any) -> Any:
        return tfp.VonMises(self.prediction, self.concentration)


def wrapped(angle: Tensor) -> Tensor:
    """The same angle in (-pi, pi]."""
    turns = ops.stop_gradient(-floor(0.5 - angle / (2 * math.pi)))
    return angle - _TURN * turns - (2 * math.pi - _TURN) * turns
