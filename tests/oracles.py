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


def logistic(prediction, scale):
    return stats.logistic(prediction, scale)


def huber(prediction, threshold, scale):
    return _Huber(prediction, threshold, scale)


def exponential(prediction):
    return stats.expon(scale=prediction)


def gamma(prediction, shape):
    return stats.gamma(shape, scale=prediction / shape)


def weibull(prediction, shape):
    scale = prediction / special.gamma(1 + 1 / shape)
    return stats.weibull_min(shape, scale=scale)


def log_normal(prediction, scale):
    return stats.lognorm(scale, scale=prediction * np.exp(-(scale**2) / 2))


def beta(prediction, concentration):
    return stats.beta(
        prediction * concentration, (1 - prediction) * concentration
    )


def von_mises(prediction, concentration):
    return _VonMises(prediction, concentration)


def poisson(prediction):
    return stats.poisson(prediction)


def negative_binomial(prediction, dispersion):
    return stats.nbinom(1 / dispersion, 1 / (1 + dispersion * prediction))


CONTINUOUS = {
    "normal": normal,
    "laplace": laplace,
    "student_t": student_t,
    "robust_rho": robust_rho,
    "logistic": logistic,
    "huber": huber,
    "exponential": exponential,
    "gamma": gamma,
    "weibull": weibull,
    "log_normal": log_normal,
    "beta": beta,
    "von_mises": von_mises,
}
COUNTS = {"poisson": poisson, "negative_binomial": negative_binomial}


def softmax_nll(y, prediction, temperature):
    log_p = special.log_softmax(prediction / temperature, axis=-1)
    if np.shape(y) == np.shape(prediction):
        return -np.sum(y * log_p, axis=-1)
    index = np.asarray(y, dtype=int)[..., None]
    return -np.take_along_axis(log_p, index, axis=-1)[..., 0]


def bernoulli_nll(y, prediction, temperature):
    p = special.expit(prediction / temperature)
    return -stats.bernoulli(p).logpmf(y)


class _Huber:
    """Huber's density, with the integral of its tails by hand."""

    def __init__(self, prediction, threshold, scale):
        self.prediction, self.k, self.scale = prediction, threshold, scale

    def _masses(self):
        centre = np.sqrt(2 * np.pi) * (1 - 2 * stats.norm.cdf(-self.k))
        return centre, np.exp(-(self.k**2) / 2) / self.k

    def logpdf(self, y):
        z = (y - self.prediction) / self.scale
        centre, tail = self._masses()
        rho = np.where(
            np.abs(z) <= self.k,
            z**2 / 2,
            self.k * np.abs(z) - self.k**2 / 2,
        )
        return -rho - np.log(self.scale * (centre + 2 * tail))

    def cdf(self, y):
        z = (y - self.prediction) / self.scale
        centre, tail = self._masses()
        size = np.abs(z)
        near = tail + np.sqrt(2 * np.pi) * (
            stats.norm.cdf(-np.minimum(size, self.k)) - stats.norm.cdf(-self.k)
        )
        far = tail * np.exp(-self.k * (size - self.k))
        low = np.where(size <= self.k, near, far) / (centre + 2 * tail)
        return np.where(z < 0, low, 1 - low)


class _VonMises:
    """By quadrature, from the cut of the circle opposite to the prediction.

    SciPy's cdf has an error of 1e-7.
    """

    def __init__(self, prediction, concentration):
        self.prediction, self.kappa = np.broadcast_arrays(
            prediction, concentration
        )

    def logpdf(self, y):
        return stats.vonmises(self.kappa).logpdf(y - self.prediction)

    def cdf(self, y):
        angle = (y - self.prediction + np.pi) % (2 * np.pi) - np.pi
        return np.vectorize(self._cdf)(angle, self.kappa)

    @staticmethod
    def _cdf(angle, kappa):
        density = stats.vonmises(kappa).pdf
        return 0.5 + integrate.quad(density, 0, angle, epsabs=1e-12)[0]


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
    "hyperbolic_secant": lambda z: z + np.log1p(np.exp(-2 * z)),
}
