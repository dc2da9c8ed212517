"""Least squares with a learned or predicted scale per example."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from keras_likelihood.backend.threads import one_blas_thread
from keras_likelihood.layers.target_units import centre_and_spread
from keras_likelihood.likelihoods.checks import (
    as_weight,
    check_argument,
    check_seed,
    finite_numbers,
)
from keras_likelihood.robust import data_scale, gated, starts


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class RobustLinearRegressor(RegressorMixin, BaseEstimator):
    """Least squares in which each example has its own scale.

    A subclass fits standardised rows (`_solve`) and computes `_scales`.
    """

    restraint: Any = None
    floor: float = 1e-4
    random_state: Any = 0
    _solve: ClassVar[Callable[..., data_scale.Solution]]
    _scales: ClassVar[Callable[..., np.ndarray]]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # noqa: N803
        """Fits coefficients and scales; returns self.

        It sets `coef_` (b) and `intercept_` (a); `scale_`, the scales of the
        training examples; `scale_coef_` and `scale_intercept_` of the log of
        the floor; and `shape_`, the restraint used, or the share of outliers.

        Args:
            X: inputs, `(n, d)`, at least two rows.
            y: targets, `(n,)`.
            sample_weight: weights `>= 0`, `(n,)`. A weight of 2 equals a
                repeated row. Defaults to ones.
        """
        X, y = validate_data(  # noqa: N806
            self, X, y, dtype="float64", y_numeric=False, ensure_min_samples=2
        )
        y = finite_numbers(y)
        weight = as_weight(sample_weight, y.shape)
        check_seed("random_state", self.random_state)
        rng = check_random_state(self.random_state)
        rows, targets, weight = starts.canonical_rows(X, y, weight)
        center, spread = centre_and_spread(rows, rows.shape[1], weight)
        (y_center,), (y_spread,) = centre_and_spread(targets, 1, weight)
        self._units = center, spread, y_center, y_spread
        rows = np.column_stack([(rows - center) / spread, np.ones(len(rows))])
        targets = (targets - y_center) / y_spread
        with one_blas_thread():
            found = self._solve(rows, targets, weight, rng)
        *slopes, constant = found.coefficients
        self.coef_ = y_spread / spread * slopes
        at_zero = y_center + y_spread * constant - center @ self.coef_
        self.intercept_ = float(at_zero)
        self.scale_coef_ = found.slopes / spread
        log_floor = found.log_floor + np.log(y_spread)
        self.scale_intercept_ = float(log_floor - center @ self.scale_coef_)
        self.shape_ = float(found.restraint)
        self._lowest = self.floor * y_spread
        self.scale_ = self._scales(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Predictions `X @ coef_ + intercept_`, `(n,)`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="float64", reset=False)  # noqa: N806
        return X @ self.coef_ + self.intercept_

    def predict_scale(self, X: Any, y: Any = None) -> np.ndarray:  # noqa: N803
        """Scales of training or new examples, `(n,)`.

        Without targets `y`, `(n,)`, the result is the floor, which is the scale
        if the target equals the prediction.
        """
        check_is_fitted(self)
        options: dict[str, Any] = {"dtype": "float64", "reset": False}
        if y is None:
            return self._floors(validate_data(self, X, **options))
        X, y = validate_data(self, X, y, **options)  # noqa: N806
        return self._scales(X, finite_numbers(y))

    def _floors(self, x: Any) -> Any:
        floors = np.exp(x @ self.scale_coef_ + self.scale_intercept_)
        return np.maximum(floors, self._lowest)

    def _residuals(self, x: Any, y: Any) -> Any:
        return np.abs(y - x @ self.coef_ - self.intercept_)


def check_options(
    restraint: Any, floor: Any, *, may_be_zero: Any = False
) -> None:
    """Raises unless `restraint > 0` and `floor > 0` is finite."""
    fits = restraint > 0 or (may_be_zero and restraint == 0)
    allowed = f"{'>= 0' if may_be_zero else '> 0'}. Infinity is least squares"
    check_argument("restraint", restraint, fits, allowed)
    check_argument("floor", floor, 0 < floor < np.inf, "a finite number > 0")


@dataclasses.dataclass(kw_only=True, eq=False, repr=False)
class DataScaleRegressor(RobustLinearRegressor):
    """Linear regression with a scale for each example (DPLS).

        y_i ~ Normal(x_i . b + a, scale_i),  scale_i >= floor

    A plane through a few examples would have an infinite likelihood. So the
    scales have a floor and the prior `(floor / scale)^restraint`. The best
    scale of a residual r_i is then

        scale_i = max(floor, |r_i| / sqrt(1 + restraint)),

    and the density of residuals is Normal in the middle with tails that fall
    as `|r|^-(1 + restraint)`. It integrates to one, so floor and restraint can
    be learned with the coefficients.

    Args:
        restraint: exponent of the prior, `> 0`. With `None` (default) it is
            learned between 0.5 and 30. Infinity is least squares.
        floor: smallest floor, in units of the spread of y. Defaults to 1e-4.
        random_state: seed of the random subsets from which the fit starts.

    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> y = 2 * x[:, 0] + 1 + 0.1 * np.sin(40 * x[:, 0])
    >>> y[40:] = -5
    >>> DataScaleRegressor().fit(x, y).coef_.round(1)
    array([2.])
    """

    restraint: float | None = None

    def _solve(self, x: Any, y: Any, weight: Any, rng: Any) -> Any:
        learned = self.restraint is None
        check_options(1.0 if learned else self.restraint, self.floor)
        problem = data_scale.Problem(
            x, y, weight, np.log(self.floor), self.restraint
        )
        return data_scale.solve(problem, rng)

    def _scales(self, x: Any, y: Any) -> Any:
        scale = self._residuals(x, y) / np.sqrt(1 + self.shape_)
        return np.maximum(scale, self._floors(x))


@dataclasses.dataclass(eq=False, repr=False)
class PredictedScaleRegressor(RobustLinearRegressor):
    """Linear regression whose scale is predicted (MPLS-X, MPLS-XY).

        y_i ~ Normal(x_i . b + a, scale_i)
        inputs="xy":  scale_i = floor / sqrt(P(inlier | x_i, y_i))
        inputs="x":   scale_i = exp(x_i . v + c)

    If y is an input, the scale separates outliers from inliers. It comes from
    a mixture in which most targets lie near the plane and the others may lie
    anywhere,

        y ~ (1 - e(x)) Normal(x . b + a, floor) + e(x) Cauchy(middle, width)

    where the share of outliers e(x) is a logistic function of the distance of
    x from the middle of the inputs. Everything is learned together, by maximum
    likelihood (EM). If the likelihood without outliers is better by BIC, the
    result is least squares. With `inputs="x"`, the scale is large where the
    noise is large.

    This is a redescending M-estimator with leverage. The fit starts from planes
    through small subsets, which concentration steps improve (FAST-LTS;
    Rousseeuw and Van Driessen, 2006). Mixtures for outliers are from Aitkin and
    Wilson (1980) and MLESAC (Torr and Zisserman, 2000).

    Args:
        inputs: `"xy"` (default) or `"x"`.
        restraint: `>= 0`. For `"xy"`, the cost of the outlier parameters, in
            units of BIC's cost. For `"x"`, the strength of the prior
            `restraint * |v|^2` for standardised x. Infinity is least squares.
            Defaults to 1.
        floor, random_state: as in `DataScaleRegressor`.

    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> y = 2 * x[:, 0] + 1 + 0.1 * np.sin(40 * x[:, 0])
    >>> y[40:] = -5
    >>> model = PredictedScaleRegressor().fit(x, y)
    >>> model.coef_.round(1), int(model.scale_.argsort()[-10:].min())
    (array([2.]), 40)
    """

    inputs: str = "xy"
    _: dataclasses.KW_ONLY
    restraint: float = 1.0

    def _solve(self, x: Any, y: Any, weight: Any, rng: Any) -> Any:
        known = self.inputs in ("x", "xy")
        check_argument("inputs", self.inputs, known, "'x' or 'xy'")
        check_options(self.restraint, self.floor, may_be_zero=True)
        if self.inputs == "x":
            decay = None if np.isinf(self.restraint) else self.restraint
            problem = data_scale.Problem(
                x, y, weight, np.log(self.floor), np.inf, decay
            )
            found = data_scale.solve(problem, rng)
            return dataclasses.replace(found, restraint=0.0)
        self._mixture, self._distances = gated.solve(
            x, y, weight, np.log(self.floor), self.restraint, rng
        )
        return data_scale.Solution(
            self._mixture.coefficients[0],
            np.zeros(x.shape[1] - 1),
            np.log(self._mixture.variance[0, 0]) / 2,
            1 - self._mixture.inliers[0],
        )

    def _scales(self, x: Any, y: Any) -> Any:
        floors = self._floors(x)
        if self.inputs == "x":
            return floors
        center, spread, y_center, y_spread = self._units
        residual = self._residuals(x, y)
        odds = self._mixture.log_odds(
            (residual / y_spread) ** 2,
            self._distances((x - center) / spread),
            (y - y_center) / y_spread,
        )[0]
        # sqrt(1 + exp(odds)), finite. The scale is at most the residual, the
        # optimum for a single example.
        factor = np.exp(np.minimum(np.logaddexp(0, odds), 1400) / 2)
        return np.clip(residual, floors, floors * factor)
