"""Linear regression with a scale that is affine in x and y."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

_LEAST = 0.01
_DECAYS = 0.9, 0.999


class AffineScaleRegressor(RegressorMixin, BaseEstimator):
    """Linear regression with an affine scale, by gradient descent.

        y_i ~ Normal(x_i . b + a, scale_i)
        scale_i = softplus([x_i, y_i] . w + c), shifted to be at least 0.01

    Inputs and targets are standardised. The initial values are b = w = 0 and a
    scale of one, and Adam trains all parameters together. This is not a robust
    estimator. The scale grows along one direction of x and y, so it cannot be
    large on both sides of the plane. A scale that depends on y can become small
    for some targets, and the mean then follows these targets. Use
    `keras_likelihood.robust.PredictedScaleRegressor` instead.

    Args:
        inputs: the inputs of the scale, `"xy"` (default) or `"x"`.
        steps: the number of steps of Adam on all rows, `>= 1`. Defaults to
            2000.
        learning_rate: the learning rate of b and a, `> 0`, decayed to 0 along
            a cosine. Defaults to 0.05.
        scale_rate: learning rate of w and c relative to it, `> 0`. Defaults
            to 0.1, as in the paper.

    Attributes:
        coef_: b, `(d,)`.
        intercept_: a.
        scale_: scales of the training examples, `(n,)`.
        scale_coef_: w, `(d + 1,)` or `(d,)`, of standardised inputs.
        scale_intercept_: c.
    """

    def __init__(
        self,
        inputs: str = "xy",
        *,
        steps: int = 2000,
        learning_rate: float = 0.05,
        scale_rate: float = 0.1,
    ):
        self.inputs = inputs
        self.steps = steps
        self.learning_rate = learning_rate
        self.scale_rate = scale_rate

    def fit(self, X, y):  # noqa: N803
        """Fits coefficients and scales to `X` `(n, d)` and `y` `(n,)`."""
        X, y = validate_data(  # noqa: N806
            self, X, y, dtype="float64", y_numeric=True, ensure_min_samples=2
        )
        y = y.astype("float64")
        self._center, self._spread = _center_and_spread(X)
        self._y_center, self._y_spread = _center_and_spread(y)
        x, y_unit = self._standardise(X, y)
        found = self._descend(x, y_unit)
        d = X.shape[1]
        self.coef_ = self._y_spread / self._spread * found[:d]
        self.intercept_ = float(
            self._y_center
            + self._y_spread * found[d]
            - self._center @ self.coef_
        )
        self.scale_coef_ = found[d + 1 : -1]
        self.scale_intercept_ = float(found[-1])
        self.scale_ = self.predict_scale(X, y)
        return self

    def predict(self, X) -> np.ndarray:  # noqa: N803
        """Predictions `X @ coef_ + intercept_`, `(n,)`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="float64", reset=False)  # noqa: N806
        return X @ self.coef_ + self.intercept_

    def predict_scale(self, X, y) -> np.ndarray:  # noqa: N803
        """Scales of examples, `(n,)`."""
        check_is_fitted(self)
        x, y = self._standardise(np.asarray(X, float), np.asarray(y, float))
        read = self._read(x, y) @ self.scale_coef_ + self.scale_intercept_
        return self._y_spread * _scale(read)

    def _standardise(self, x, y):
        x = (x - self._center) / self._spread
        return x, (y - self._y_center) / self._y_spread

    def _read(self, x, y):
        return np.column_stack([x, y]) if self.inputs == "xy" else x

    def _descend(self, x, y):
        """Adam on all rows: b, a, w and c in one vector."""
        d = x.shape[1]
        x_one = np.column_stack([x, np.ones(len(x))])
        read = np.column_stack([self._read(x, y), np.ones(len(x))])
        rates = np.full(d + 1 + read.shape[1], self.learning_rate)
        rates[d + 1 :] *= self.scale_rate
        point = np.zeros_like(rates)
        point[-1] = np.log(np.e - 1)
        first, second = np.zeros_like(rates), np.zeros_like(rates)
        for step in range(self.steps):
            gradient = _gradient(x_one, read, y, point, d + 1)
            first += (1 - _DECAYS[0]) * (gradient - first)
            second += (1 - _DECAYS[1]) * (gradient**2 - second)
            mean = first / (1 - _DECAYS[0] ** (step + 1))
            size = np.sqrt(second / (1 - _DECAYS[1] ** (step + 1))) + 1e-8
            decay = (1 + np.cos(np.pi * step / self.steps)) / 2
            point = point - decay * rates * mean / size
        return point


def _scale(read):
    """Softplus with a smallest value. It is 1 where softplus is 1."""
    return _LEAST + (1 - _LEAST) * np.logaddexp(0, read)


def _gradient(x, read, y, point, split):
    """Gradient of the mean negative log-likelihood."""
    residual = y - x @ point[:split]
    t = read @ point[split:]
    scale = _scale(t)
    slope = (1 - _LEAST) * np.exp(-np.logaddexp(0, -t))
    by_mean = -residual / scale**2
    by_scale = (1 / scale - residual**2 / scale**3) * slope
    return np.concatenate([by_mean @ x, by_scale @ read]) / len(y)


def _center_and_spread(values):
    spread = values.std(axis=0)
    return values.mean(axis=0), np.where(spread > 0, spread, 1.0)
