"""Densities from SciPy by likelihood name, independent of the package."""

import numpy as np
from scipy import integrate, special, stats


def weibull(prediction, shape):
    scale = prediction / special.gamma(1 + 1 / shape)
    return stats.weibull_min(shape, scale=scale)


CONTINUOUS = {
    "normal": stats.norm,
    "laplace": stats.laplace,
    "student_t": lambda at, df, scale: stats.t(df, at, scale),
    "robust_rho": lambda *args, **values: _RobustRho(*args, **values),
    "logistic": stats.logistic,
    "huber": lambda *args, **values: _Huber(*args, **values),
    "exponential": lambda mean: stats.expon(scale=mean),
    "gamma": lambda mean, shape: stats.gamma(shape, scale=mean / shape),
    "weibull": weibull,
    "log_normal": lambda mean, scale: stats.lognorm(
        scale, scale=mean * np.exp(-(scale**2) / 2)
    ),
    "beta": lambda mean, concentration: stats.beta(
        mean * concentration, (1 - mean) * concentration
    ),
    "von_mises": lambda *args, **values: _VonMises(*args, **values),
}
COUNTS = {
    "poisson": stats.poisson,
    "negative_binomial": lambda mean, dispersion: stats.nbinom(
        1 / dispersion, 1 / (1 + dispersion * mean)
    ),
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


class _Huber:
    """Huber's density, with the tail integrals by hand."""

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


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_ENDS = (slice(None, -1), slice(1, None))


class Brute:
    """Numbers of a density by fine panels in float64, or by sums.

    Args:
        log_density: function of outcomes and of the prediction, up to a
            constant.
        points: where the panels end; whole numbers if `step` is given.
        step: distance of the outcomes if only multiples of it occur.
    """

    def __init__(self, log_density, points, step=None):
        self.log_density, self.step = log_density, step
        self.points = np.unique(points[np.isfinite(points)])
        self._kept = {}

    def _nodes(self, low, high):
        """Outcomes and log-weights between neighbouring points."""
        half = 0.5 * (high - low)[:, None]
        with np.errstate(divide="ignore"):
            return low[:, None] + half * (1 + _NODES), np.log(half * _WEIGHTS)

    def _panels(self, prediction):
        """Outcomes and their log-masses, computed once."""
        if prediction not in self._kept:
            y, weights = self.points[:, None], 0.0
            if not self.step:
                y, weights = self._nodes(self.points[:-1], self.points[1:])
            log_p = self.log_density(y.ravel(), prediction).reshape(y.shape)
            self._kept[prediction] = y, log_p + weights
        return self._kept[prediction]

    def log_mass(self, prediction, low=-np.inf, high=np.inf):
        """Log of the mass in `(low, high]`."""
        _, log_p = self._panels(prediction)
        if self.step:
            inside = (self.points > low) & (self.points <= high)
            return special.logsumexp(log_p[inside]) if inside.any() else -np.inf
        start, end = (np.clip(self.points, low, high)[s] for s in _ENDS)
        is_whole = (start == self.points[:-1]) & (end == self.points[1:])
        is_part = ~is_whole & (end > start)
        parts = [log_p[is_whole].ravel()]
        if is_part.any():
            y, weights = self._nodes(start[is_part], end[is_part])
            density = self.log_density(y.ravel(), prediction)
            parts.append(density + weights.ravel())
        parts = np.concatenate(parts)
        return special.logsumexp(parts) if len(parts) else -np.inf

    def shares(self, prediction):
        """Outcomes and their probabilities."""
        y, log_p = (x.ravel() for x in self._panels(prediction))
        return y, np.exp(log_p - special.logsumexp(log_p))

    def nll(self, y, prediction):
        log_p = self.log_density(np.array([y]), prediction)[0]
        return self.log_mass(prediction) - log_p

    def log_tails(self, y, prediction):
        """`(log P(Y <= y), log P(Y > y))`."""
        total = self.log_mass(prediction)
        return (
            self.log_mass(prediction, high=y) - total,
            self.log_mass(prediction, low=y) - total,
        )

    def moments(self, prediction):
        y, p = self.shares(prediction)
        mean = np.sum(p * y)
        return mean, np.sum(p * (y - mean) ** 2)

    def information(self, prediction):
        """The variance of the slope of the log-density."""
        y, p = self.shares(prediction)
        step = 1e-7 * max(abs(prediction), 1.0)
        up, down = (self.log_density(y, prediction + s) for s in (step, -step))
        with np.errstate(invalid="ignore"):
            slope = np.where(p > 1e-25, (up - down) / (2 * step), 0.0)
        return np.sum(p * (slope - np.sum(p * slope)) ** 2)

    def truncated(self, low, high):
        """The density, given that the outcome lies in `[low, high]`."""
        points = self.points
        if not self.step:
            near = np.concatenate([[0.0], np.logspace(-12, 2, 141)])
            ends = [e for e in (low + near, high - near) if np.isfinite(e[0])]
            points = np.concatenate([points, *ends])
        inside = (points >= low) & (points <= high)

        def log_density(y, prediction):
            outside = (y < low) | (y > high)
            return np.where(outside, -np.inf, self.log_density(y, prediction))

        return Brute(log_density, points[inside], self.step)

    def rounded(self, step):
        """The density, rounded to multiples of `step`."""
        y, p = self.shares(self.centre)
        y = y[p > 1e-13]
        grid = np.arange(np.round(y.min() / step), np.round(y.max() / step) + 1)

        def log_density(y, prediction):
            return np.array(
                [
                    self.log_mass(prediction, v - step / 2, v + step / 2)
                    for v in y
                ]
            )

        return Brute(log_density, step * grid, step)

    centre = 0.0

    def transformed(self, to, back, log_slope):
        """The density of a target whose image follows this density."""

        def log_density(y, prediction):
            return self.log_density(to(y), to(prediction)) + log_slope(y)

        return Brute(log_density, back(self.points))

    def mixed(self, others):
        """A mixture with `(log weight, function of the prediction, Brute)`."""

        def log_density(y, prediction):
            parts = [
                log_weight
                + part.log_density(y, at(prediction))
                - part.log_mass(at(prediction))
                for log_weight, at, part in others
            ]
            return special.logsumexp(parts, axis=0)

        points = np.concatenate([part.points for _, _, part in others])
        return Brute(log_density, points, self.step)


def brute(name, prediction, **parameters):
    """The `Brute` of a scalar likelihood without a wrapper."""
    if name == "robust_rho":
        scale, shape = parameters["scale"], parameters["shape"]

        def log_density(y, at):
            return -_RobustRho._rho((y - at) / scale, shape) - np.log(scale)
    else:
        make = {**CONTINUOUS, **COUNTS}[name]

        def log_density(y, at):
            frozen = make(at, **parameters)
            return getattr(
                frozen, "logpdf" if name in CONTINUOUS else "logpmf"
            )(y)

    wide = np.logspace(-7, 9, 129)
    if name in COUNTS:
        spread = make(prediction, **parameters).std()
        return Brute(log_density, np.arange(prediction + 40 * spread + 99), 1.0)
    if name == "von_mises":
        spread = min(np.pi, 30 / np.sqrt(parameters["concentration"]))
        points = prediction + np.linspace(-spread, spread, 200)
    elif name == "beta":
        odds = np.linspace(-300, 35, 500)
        points = special.expit(np.concatenate([odds, -odds[odds > -35]]))
    elif name in ("exponential", "gamma", "weibull", "log_normal"):
        points = prediction * np.concatenate(
            [np.logspace(-200, -7, 250), wide, 1 + wide[:54], 1 - wide[:54]]
        )
        points = points[points > 0]
    else:
        far = parameters["scale"] * np.concatenate([[0.0], wide])
        points = np.concatenate([prediction - far, prediction + far])
        if "threshold" in parameters:
            kink = parameters["scale"] * parameters["threshold"]
            points = np.append(points, [prediction - kink, prediction + kink])
    found = Brute(log_density, points)
    found.centre = prediction
    return found
