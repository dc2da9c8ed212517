"""Densities from SciPy, by likelihood name: no import from the package."""

import numpy as np
from scipy import integrate, special, stats


def normal(prediction, scale):
    return stats.norm(prediction, scale)


def laplace(prediction, scale):
    return stats.laplace(prediction, scale)


def student_t(prediction, df, scale):
    return stats.t(df, prediction, scale)


def robust_rho(prediction, shape, scale):
    return _RobustRho(prediction, shape, scale)


CONTINUOUS = {
    "normal": normal,
    "laplace": laplace,
    "student_t": student_t,
    "robust_rho": robust_rho,
}


def softmax_nll(y, prediction, temperature):
    log_p = special.log_softmax(prediction / temperature, axis=-1)
    if np.shape(y) == np.shape(prediction):
        return -np.sum(y * log_p, axis=-1)
    index = np.asarray(y, dtype=int)[..., None]
    return -np.take_along_axis(log_p, index, axis=-1)[..., 0]


def bernoulli_nll(y, prediction, temperature):
    p = special.expit(prediction / temperature)
    return -stats.bernoulli(p).logpmf(y)


class _RobustRho:
    """Barron's density by plain quadrature, one element at a time."""

    def __init__(self, prediction, shape, scale):
        self.prediction, self.shape, self.scale = np.broadcast_arrays(
            prediction, shape, scale
        )

    def logpdf(self, y):
        return np.vectorize(self._logpdf)(
            y, self.prediction, self.shape, self.scale
        )

    def cdf(self, y):
        return np.vectorize(self._cdf)(
            y, self.prediction, self.shape, self.scale
        )

    def _logpdf(self, y, prediction, shape, scale):
        partition = 2 * self._integral(shape, 0, np.inf)
        z = (y - prediction) / scale
        return -self._rho(z, shape) - np.log(scale * partition)

    def _cdf(self, y, prediction, shape, scale):
        z = (y - prediction) / scale
        half = self._integral(shape, 0, np.inf)
        share = 0.5 * self._integral(shape, 0, abs(z)) / half
        return 0.5 + np.sign(z) * share

    def _integral(self, shape, low, high):
        return integrate.quad(
            lambda z: np.exp(-self._rho(z, shape)), low, high, limit=200
        )[0]

    @staticmethod
    def _rho(z, shape):
        if shape == 2:
            return 0.5 * z**2
        if shape == 0:
            return np.log(0.5 * z**2 + 1)
        b = abs(shape - 2)
        return b / shape * ((z**2 / b + 1) ** (shape / 2) - 1)


def score_moments(nll):
    """`(E[psi^2], E[z psi^3])` of `psi = d nll / dz`, by plain quadrature.

    Args:
        nll: function of a float > 0 whose mirror image is the other half;
            its constant does not matter.
    """
    step = 1e-5

    def score(z):
        return (nll(z + step) - nll(z - step)) / (2 * step)

    def integral(function):
        parts = [0, 1e-3, 1, 10, np.inf]
        return sum(
            integrate.quad(
                lambda z: function(z) * np.exp(-nll(z)), low, high, limit=200
            )[0]
            for low, high in zip(parts[:-1], parts[1:], strict=True)
        )

    mass = integral(lambda z: 1.0)
    second = integral(lambda z: score(z) ** 2) / mass
    return second, integral(lambda z: z * score(z) ** 3) / mass


# Up to a constant, and for z > 0 only: the other half is its mirror image.
STANDARD_NLL = {
    "normal": lambda z: 0.5 * z**2,
    "laplace": lambda z: z,
    "student_t": lambda z, df: (df + 1) / 2 * np.log1p(z**2 / df),
    "robust_rho": lambda z, shape: _RobustRho._rho(z, shape),
    "logistic": lambda z: z + 2 * np.log1p(np.exp(-z)),
}
