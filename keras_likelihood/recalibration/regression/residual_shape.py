"""The distribution of the standardised residuals.

The densities are written here, because a search evaluates them hundreds of
times and `scipy.stats` takes ten times as long.
"""

import dataclasses

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, ndtr, stdtr

_LEAST_DF, _MOST_DF = 1.5, 1e4


@dataclasses.dataclass(frozen=True)
class ResidualShape:
    """Normal or Student's t residuals, perhaps with a shift.

    Args:
        likelihood: `"normal"` or `"student_t"`.
        shift: location of the residuals over the scale.
        factor: factor on the scale.
        df: degrees of freedom, or `None`.
    """

    likelihood: str
    shift: float
    factor: float
    df: float | None = None

    def nll(self, z):
        """Negative log-density of each residual, as `z`."""
        square = ((z - self.shift) / self.factor) ** 2
        if self.df is None:
            constant = 0.5 * np.log(2 * np.pi)
            return 0.5 * square + constant + np.log(self.factor)
        df = self.df
        constant = gammaln(df / 2) - gammaln((df + 1) / 2)
        constant += 0.5 * np.log(np.pi * df)
        tail = 0.5 * (df + 1) * np.log1p(square / df)
        return tail + constant + np.log(self.factor)

    def cdf(self, z):
        """Probability of a residual at most `z`."""
        standard = (z - self.shift) / self.factor
        return ndtr(standard) if self.df is None else stdtr(self.df, standard)


def fit_shape(z, weight, likelihood="auto") -> ResidualShape:
    """Fits a shape to residuals by maximum likelihood.

    A shift is used only if it lowers Akaike's information criterion. The same
    holds, with `"auto"`, for tails heavier than normal ones. Each costs 1 in
    log-likelihood.

    Args:
        z: residuals over their scale, `(rows,)`.
        weight: `(rows,)`.
        likelihood: `"normal"`, `"student_t"` or `"auto"`.
    """
    mean = np.average(z, weights=weight)
    about_zero = np.sqrt(np.average(z**2, weights=weight))
    about_mean = np.sqrt(np.average((z - mean) ** 2, weights=weight))
    candidates = []
    if likelihood != "student_t":
        candidates += [
            (0, ResidualShape("normal", 0.0, _positive(about_zero))),
            (1, ResidualShape("normal", mean, _positive(about_mean))),
        ]
    if likelihood != "normal":
        candidates += [
            (1, _student_t(z, weight, about_zero, shifted=False)),
            (2, _student_t(z, weight, about_mean, shifted=True)),
        ]

    def criterion(candidate):
        extra, shape = candidate
        return weight @ shape.nll(z) + extra

    return min(candidates, key=criterion)[1]


def _student_t(z, weight, spread, shifted):
    spread = _positive(spread)

    def shape(theta):
        df = float(np.clip(np.exp(theta[0]), _LEAST_DF, _MOST_DF))
        shift = spread * float(theta[2]) if shifted else 0.0
        factor = spread * float(np.exp(np.clip(theta[1], -20, 20)))
        return ResidualShape("student_t", shift, factor, df)

    found = minimize(
        lambda theta: np.average(shape(theta).nll(z), weights=weight),
        np.array([np.log(8.0), 0.0] + [0.0] * shifted),
        method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-9, "maxiter": 600},
    )
    return shape(found.x)


def _positive(scale):
    return max(float(scale), 1e-12)
