"""The distribution of the standardised residuals."""

import dataclasses

import keras
import numpy as np
from scipy import stats
from scipy.optimize import minimize, minimize_scalar

from keras_likelihood import likelihoods
from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.likelihoods.checks import to_float64

_LEAST_DF, _MOST_DF = 1.5, 1e4
_SCIPY = {"normal": stats.norm, "student_t": stats.t}


@dataclasses.dataclass(frozen=True)
class ResidualShape:
    """A location-scale density of residuals, with an optional shift.

    Normal and Student's t densities are computed by SciPy, because a search
    evaluates them hundreds of times.

    `shift` is the location of the residuals relative to the scale, and `factor`
    a factor on the scale. `parameters` are the other parameters of the
    likelihood by name, each a number or `(rows,)`.
    """

    likelihood: str = "normal"
    shift: float = 0.0
    factor: float = 1.0
    parameters: dict = dataclasses.field(default_factory=dict)

    def nll(self, z):
        """Negative log-density of each residual, as `z`."""
        z = (z - self.shift) / self.factor
        if self.likelihood in _SCIPY:
            found = -_SCIPY[self.likelihood].logpdf(z, **self.parameters)
        else:
            density, z = self._standard(z)
            found = to_float64(density.standard_nll(z))
        return found + np.log(self.factor)

    def cdf(self, z):
        """Probability of a residual at most `z`."""
        z = (z - self.shift) / self.factor
        if self.likelihood in _SCIPY:
            return _SCIPY[self.likelihood].cdf(z, **self.parameters)
        density, z = self._standard(z)
        return np.clip(to_float64(density.standard_cdf(z)), 0.0, 1.0)

    def loss_and_slope(self, z):
        """`nll` without shift and factor, up to a constant, and its slope."""
        if self.likelihood == "normal":
            return 0.5 * z**2, z
        density, z = self._standard(z)
        loss, (slope,) = value_and_gradient(density.standard_nll, [z])
        return to_float64(loss), to_float64(slope)

    def at(self, rows) -> "ResidualShape":
        """The same density for some of the rows."""
        kept = {
            name: value[rows] if np.ndim(value) else value
            for name, value in self.parameters.items()
        }
        return dataclasses.replace(self, parameters=kept)

    def best_factor(self, z, weight) -> float:
        """The factor on the scale that fits best without a shift."""
        spread = _root_mean_square(z, weight)
        if self.likelihood == "normal":
            return spread

        def nll(log_factor):
            factor = spread * np.exp(log_factor)
            shape = dataclasses.replace(self, shift=0.0, factor=factor)
            return np.average(shape.nll(z), weights=weight)

        found = minimize_scalar(nll, bounds=(-20, 20), method="bounded")
        return float(spread * np.exp(found.x))

    def _standard(self, z):
        """The density of scale 1, and `z` as a tensor."""
        values = {
            name: widest(value) if np.ndim(value) else float(value)
            for name, value in self.parameters.items()
        }
        z = keras.ops.convert_to_tensor(widest(z))
        return likelihoods.get(self.likelihood)(0 * z, scale=1.0, **values), z


def fit_shape(
    z, weight, likelihood="auto", own: ResidualShape | None = None
) -> ResidualShape:
    """Fits a shape to standardised residuals by maximum likelihood.

    A shift is used only if it lowers Akaike's information criterion. The same
    holds for heavier tails than normal, with `"auto"` and a normal model. Each
    costs 1 in log-likelihood. With `"auto"` and another model, the shape `own`
    of the model is kept.
    """
    own = own or ResidualShape()
    mean = np.average(z, weights=weight)
    about_zero = _root_mean_square(z, weight)
    about_mean = _root_mean_square(z - mean, weight)
    candidates = []
    if likelihood == "auto" and own.likelihood != "normal":
        best = dataclasses.replace(own, factor=own.best_factor(z, weight))
        start = {"factor": np.log(best.factor / about_mean), "shift": 0.0}
        candidates = [
            (0, best),
            (1, _search(best, z, weight, about_mean, start)),
        ]
        likelihood = "own"
    if likelihood in ("auto", "normal"):
        candidates += [
            (0, ResidualShape("normal", 0.0, about_zero)),
            (1, ResidualShape("normal", mean, about_mean)),
        ]
    if likelihood in ("auto", "student_t"):
        tails = ResidualShape("student_t")
        start = {"df": np.log(8.0), "factor": 0.0}
        candidates += [(1, _search(tails, z, weight, about_zero, start))]
        start["shift"] = 0.0
        candidates += [(2, _search(tails, z, weight, about_mean, start))]
    return min(candidates, key=lambda c: weight @ c[1].nll(z) + c[0])[1]


def _search(shape, z, weight, spread, start):
    """Finds the shift and the logarithms of factor and df, as in `start`."""

    def at(theta):
        found = dict(zip(start, theta, strict=True))
        changed = {"factor": spread * _exp(found["factor"])}
        if "df" in found:
            df = float(np.clip(_exp(found["df"]), _LEAST_DF, _MOST_DF))
            changed["parameters"] = {"df": df}
        if "shift" in found:
            changed["shift"] = spread * float(found["shift"])
        return dataclasses.replace(shape, **changed)

    found = minimize(
        lambda theta: np.average(at(theta).nll(z), weights=weight),
        list(start.values()),
        method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-9, "maxiter": 600},
    )
    return at(found.x)


def _exp(value):
    return float(np.exp(np.clip(value, -20, 20)))


def _root_mean_square(z, weight):
    return max(float(np.sqrt(np.average(z**2, weights=weight))), 1e-12)


def widest(values):
    """An array in float64 if the backend supports it."""
    # JAX computes in float32 by default.
    wide = keras.backend.backend() != "jax"
    return np.asarray(values, dtype="float64" if wide else "float32")
