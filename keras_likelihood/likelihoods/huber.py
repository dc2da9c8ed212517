"""The Huber likelihood, with a normal centre and Laplace tails."""

import math

from keras import ops

from keras_likelihood.backend.operations import clip
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.location_scale import SCALE, LocationScale
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.tails import both_tails, normal_log_quantile

_ROOT = math.sqrt(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)


class Huber(LocationScale):
    """The density whose negative logarithm is Huber's loss.

        nll(y) = rho(z) + log(scale) + log Z(threshold)
        rho(z) = z^2 / 2                              if |z| <= threshold
                 threshold |z| - threshold^2 / 2      otherwise

    with `z = (y - prediction) / scale` and Z the integral of `exp(-rho)`. At
    `scale = 1` its gradient equals the gradient of Keras' `"huber"` loss with
    `delta = threshold`.

    Args:
        prediction: mean and median, `(batch, ..., units)`.
        threshold: where the tails begin, in multiples of the scale, `> 0`.
            Defaults to 1.345, which has 95 % efficiency for normal errors.
        scale: standard deviation of the centre, `> 0`. Defaults to 1.
    """

    parameters = (
        Parameter("threshold", Softplus(floor=1e-3), initial=1.345),
        SCALE,
    )

    @property
    def _threshold(self) -> Tensor:
        # Above 30 the density is normal to float64 precision.
        return clip(self.threshold, 1e-15, 30.0)

    def _masses(self) -> tuple[Tensor, Tensor, Tensor]:
        """Integrals of `exp(-rho)` over the centre, one tail, and all reals."""
        k = self._threshold
        centre = _ROOT * ops.erf(k * _ROOT_HALF)
        tail = ops.exp(-0.5 * k * k) / k
        return centre, tail, centre + 2 * tail

    def standard_nll(self, z: Tensor) -> Tensor:
        k = self._threshold
        inner = clip(z, -k, k)
        return inner * (z - 0.5 * inner) + ops.log(self._masses()[2])

    def standard_log_cdf(self, z: Tensor) -> Tensor:
        k = self._threshold
        _, tail, total = self._masses()
        size = ops.where(z < 0, -z, z)
        far = ops.log(tail) - k * ops.relu(size - k)
        inside = ops.erfc(ops.where(size < k, size, k) * _ROOT_HALF)
        near = tail + 0.5 * _ROOT * (inside - ops.erfc(k * _ROOT_HALF))
        smaller = ops.where(size < k, ops.log(near), far) - ops.log(total)
        return both_tails(z < 0, smaller)[0]

    def standard_log_quantile(self, log_p: Tensor) -> Tensor:
        k = self._threshold
        _, tail, total = self._masses()
        log_mass = log_p + ops.log(total)
        excess = log_mass - ops.log(tail)
        is_far = excess < 0
        inside = (ops.exp(log_mass) - tail) / _ROOT
        inside = clip(inside + 0.5 * ops.erfc(k * _ROOT_HALF), 1e-37, 0.5)
        near = normal_log_quantile(ops.log(ops.where(is_far, 0.25, inside)))
        return ops.where(is_far, excess / k - k, near)

    def standard_variance(self) -> Tensor:
        centre, tail, total = self._masses()
        moment = centre + 4 * tail * (1 + 1 / ops.square(self._threshold))
        return moment / total

    def standard_information(self) -> Tensor:
        """Probability of the centre, in which the score has slope 1."""
        centre, _, total = self._masses()
        return centre / total

    def scale_exponent(self) -> Tensor:
        centre, tail, _ = self._masses()
        return 2 - 2 * ops.square(self._threshold) * tail / centre
