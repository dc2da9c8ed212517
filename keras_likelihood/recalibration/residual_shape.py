"""The distribution of the standardised residuals."""

import dataclasses
from typing import Any

import keras
import numpy as np
from scipy import stats
from scipy.optimize import minimize, minimize_scalar

from keras_likelihood import likelihoods
from keras_likelihood.backend.gradients import value_and_gradient
from keras_likelihood.backend.types import Array, Tensor
from keras_likelihood.likelihoods.checks import to_float64
from keras_likelihood.reading.targets import widest

_LEAST_DF, _MOST_DF = 1.5, 1e4
_SCIPY = {"normal": stats.norm, "student_t": stats.t}


@dataclasses.dataclass(frozen=True)
class ResidualShape:
    """A density of residuals around zero, with a `factor` on their scale.

    SciPy computes normal and Student's t densities, because it is faster.
    `parameters` are numbers or `(rows,)`.
    """

    likelihood: str = "normal"
    factor: float = 1.0
    parameters: dict[str, Any] = dataclasses.field(default_factory=dict)

    def nll(self, z: Array) -> Array:
        """Negative log-density of each residual, as `z`."""
        z = z / self.factor
        if self.likelihood in _SCIPY:
            nll = -_SCIPY[self.likelihood].logpdf(z, **self.parameters)
        else:
            density, z = self._standard(z)
            nll = to_float64(density.standard_nll(z))
        return nll + np.log(self.factor)

    def cdf(self, z: Array) -> Array:
        """Probability of a residual at most `z`."""
        z = z / self.factor
        if self.likelihood in _SCIPY:
            return _SCIPY[self.likelihood].cdf(z, **self.parameters)
        density, z = self._standard(z)
        return np.clip(to_float64(density.standard_cdf(z)), 0.0, 1.0)

    def loss_and_slope(self, z: Array) -> tuple[Array, Array]:
        """`nll` without the factor, up to a constant, and its slope."""
        if self.likelihood == "normal":
            return 0.5 * z**2, z
        density, z = self._standard(z)
        loss, (slope,) = value_and_gradient(density.standard_nll, [z])
        return to_float64(loss), to_float64(slope)

    def at(self, rows: Array) -> "ResidualShape":
        """The same density for some of the rows."""
        parameters = {
            name: value[rows] if np.ndim(value) else value
            for name, value in self.parameters.items()
        }
        return dataclasses.replace(self, parameters=parameters)

    def best_factor(self, z: Array, weight: Array) -> float:
        """The factor on the scale that fits best."""
        spread = _root_mean_square(z, weight)
        if self.likelihood == "normal":
            return spread

        def nll(log_factor: float) -> float:
            factor = spread * np.exp(log_factor)
            shape = dataclasses.replace(self, factor=factor)
            return np.average(shape.nll(z), weights=weight)

        best = minimize_scalar(nll, bounds=(-20, 20), method="bounded")
        return float(spread * np.exp(best.x))

    def _standard(self, z: Array) -> tuple[Any, Tensor]:
        """The density of scale 1, and `z` as a tensor."""
        values = {
            name: widest(value) if np.ndim(value) else float(value)
            for name, value in self.parameters.items()
        }
        z = keras.ops.convert_to_tensor(widest(z))
        kind = likelihoods.get(self.likelihood)
        return kind(0 * z, scale=1.0, **values), z


def fit_shape(
    z: Array, weight: Array, likelihood: str = "auto"
) -> ResidualShape:
    """Fits a shape to standardised residuals by maximum likelihood.

    `"auto"` chooses by Akaike's criterion.
    """
    spread, shapes = _root_mean_square(z, weight), []
    if likelihood != "student_t":
        shapes.append(ResidualShape("normal", spread))
    if likelihood != "normal":
        shapes.append(_fit_student_t(z, weight, spread))
    costs = [weight @ s.nll(z) + len(s.parameters) for s in shapes]
    return shapes[int(np.argmin(costs))]


def _fit_student_t(z: Array, weight: Array, spread: float) -> ResidualShape:
    def at(theta: Array) -> ResidualShape:
        df, factor = np.exp(np.clip(theta, -20, 20))
        df = float(np.clip(df, _LEAST_DF, _MOST_DF))
        return ResidualShape("student_t", spread * float(factor), {"df": df})

    best = minimize(
        lambda theta: np.average(at(theta).nll(z), weights=weight),
        [np.log(8.0), 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-5, "fatol": 1e-9, "maxiter": 600},
    )
    return at(best.x)


def _root_mean_square(z: Array, weight: Array) -> float:
    return max(float(np.sqrt(np.average(z**2, weights=weight))), 1e-12)
