"""The Huber likelihood: a normal centre with Laplace tails."""

import math

from keras import ops

from keras_likelihood.backend.clip import clip
from keras_likelihood.constraints import ShiftedSoftplus, Softplus
from keras_likelihood.likelihoods.location_scale import LocationScale
from keras_likelihood.likelihoods.normal_quantile import normal_quantile
from keras_likelihood.likelihoods.parameter import Parameter

_ROOT = math.sqrt(2 * math.pi)


class Huber(LocationScale):
    """The density whose negative logarithm is Huber's loss.

        nll(y) = rho(z) + log(scale) + log Z(threshold)
        rho(z) = z^2 / 2                              if |z| <= threshold
                 threshold |z| - threshold^2 / 2      otherwise

    with `z = (y - prediction) / scale` and Z the integral of `exp(-rho)`. At
    `scale = 1` its gradient is that of Keras' `"huber"` with
    `delta = threshold`.

    Args:
        prediction: mean and median, `(batch, ..., units)`.
        threshold: where the tails begin, in multiples of the scale, `> 0`.
            Defaults to 1.345, which has 95 % efficiency for normal errors.
        scale: standard deviation of the centre, `> 0`. Defaults to 1.
    """

    parameters = (
        Parameter("threshold", Softplus(floor=1e-3), initial=1.345),
        Parameter("scale", ShiftedSoftplus(0.01), initial=1.0),
    )

    @property
    def _threshold(self):
        # Beyond it the centre is a normal density to float64 precision.
        return clip(self.threshold, 1e-15, 30.0)

    def _masses(self):
        """Integrals of `exp(-rho)` over the centre and over one tail."""
        k = self._threshold
        centre = _ROOT * ops.erf(k * math.sqrt(0.5))
        return centre, ops.exp(-0.5 * k * k) / k

    def _log_partition(self):
        centre, tail = self._masses()
        return ops.log(centre + 2 * tail)

    def standard_nll(self, z):
        k = self._threshold
        inner = clip(z, -k, k)
        return inner * (z - 0.5 * inner) + self._log_partition()

    def standard_cdf(self, z):
        k = self._threshold
        centre, tail = self._masses()
        partition = centre + 2 * tail
        size = ops.abs(z)
        far = tail * ops.exp(-k * ops.relu(size - k))
        near = tail + 0.5 * _ROOT * (
            ops.erfc(ops.where(size < k, size, k) * math.sqrt(0.5))
            - ops.erfc(k * math.sqrt(0.5))
        )
        smaller = ops.where(size < k, near, far) / partition
        return ops.where(z < 0, smaller, 1 - smaller)

    def standard_quantile(self, p):
        k = self._threshold
        centre, tail = self._masses()
        partition = centre + 2 * tail
        smaller = clip(ops.where(p < 0.5, p, 1 - p), 1e-37, 0.5)
        mass = smaller * partition
        is_far = mass < tail
        far = k - ops.log(ops.where(is_far, mass / tail, 1.0)) / k
        at_k = 0.5 * ops.erfc(k * math.sqrt(0.5))
        inside = ops.where(is_far, 0.25, (mass - tail) / _ROOT + at_k)
        near = -normal_quantile(clip(inside, 0.0, 0.5))
        size = ops.where(is_far, far, near)
        return ops.where(p < 0.5, -size, size)

    def standard_variance(self):
        centre, tail = self._masses()
        moment = centre + 4 * tail * (1 + 1 / ops.square(self._threshold))
        return moment / (centre + 2 * tail)

    def standard_information(self):
        """The probability of the centre, where the score has slope 1."""
        centre, tail = self._masses()
        return centre / (centre + 2 * tail)

    def scale_exponent(self):
        centre, tail = self._masses()
        return 2 - 2 * ops.square(self._threshold) * tail / centre
