"""What the robust linear regressors share."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from keras_likelihood.backend.blas_threads import one_blas_thread
from keras_likelihood.robust import solver, starts
from keras_likelihood.robust.problem import Problem


class RobustLinearRegressor(RegressorMixin, BaseEstimator):
    """Least squares in which each example has its own scale.

    A subclass defines `_settings`: the criterion and what of it is learned.
    Before the fit all columns get the median 0 and the same spread, so that
    the units of x and y do not matter.
    """

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        """Fits coefficients and scales.

        Args:
            X: inputs, `(n, d)`, two rows or more.
            y: targets, `(n,)`.
            sample_weight: weights `>= 0`, `(n,)`. A common factor does not
                matter. A weight of 2 is like the row twice. Defaults to ones.

        Returns:
            self
        """
        settings = self._settings()
        X, y = validate_data(  # noqa: N806
            self, X, y, dtype="float64", y_numeric=True, ensure_min_samples=2
        )
        y = y.astype("float64")
        weight = checked_weight(sample_weight, len(y))
        used = weight > 0
        self._fit_rows(X[used], y[used], weight[used], settings)
        self.scale_ = self._scales(X, y)
        return self

    def _settings(self) -> dict:
        """`criterion`, `shape`, `slopes` and `restraint` of the `Problem`."""
        raise NotImplementedError

    def _fit_rows(self, x, y, weight, settings):
        x, y, weight = starts.canonical_rows(x, y, weight)
        center, spread = _center_and_spread(x.T, weight)
        y_center, y_spread = _center_and_spread(y, weight)
        inputs = np.column_stack([(x - center) / spread, np.ones(len(x))])
        self._units = center, spread, y_center, y_spread
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            solution = self._solve(
                inputs, (y - y_center) / y_spread, weight, settings, rng
            )
        self.coef_ = y_spread / spread * solution.coefficients[:-1]
        self.intercept_ = float(
            y_center
            + y_spread * solution.coefficients[-1]
            - center @ self.coef_
        )
        self.scale_coef_ = solution.slopes / spread
        self.scale_intercept_ = float(
            solution.log_floor + np.log(y_spread) - center @ self.scale_coef_
        )
        self.shape_ = float(solution.shape)
        self._lowest = self.floor * y_spread

    def _solve(self, inputs, y, weight, settings, rng):
        """A `Solution` in standardised units."""
        problem = Problem(
            inputs, y, weight, lowest=np.log(self.floor), **settings
        )
        self._criterion = problem.criterion
        return solver.solve(problem, rng)

    def predict(self, X) -> np.ndarray:  # noqa: N803
        """Predictions `X @ coef_ + intercept_`, `(n,)`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="float64", reset=False)  # noqa: N806
        return X @ self.coef_ + self.intercept_

    def predict_scale(self, X, y=None) -> np.ndarray:  # noqa: N803
        """Scales of examples, seen or not, `(n,)`.

        Args:
            X: inputs, `(n, d)`.
            y: targets, `(n,)`. Without targets the result is the floor, which
                is the scale if the target equals the prediction.
        """
        check_is_fitted(self)
        if y is None:
            X = validate_data(  # noqa: N806
                self, X, dtype="float64", reset=False
            )
            return self._floors(X)
        X, y = validate_data(  # noqa: N806
            self, X, y, dtype="float64", y_numeric=True, reset=False
        )
        return self._scales(X, y)

    def _floors(self, x):
        floors = np.exp(x @ self.scale_coef_ + self.scale_intercept_)
        return np.maximum(floors, self._lowest)

    def _scales(self, x, y):
        floors = self._floors(x)
        residual = y - x @ self.coef_ - self.intercept_
        q = (residual / floors) ** 2
        return floors * self._criterion.scale(q, self.shape_)


def check_settings(restraint, floor):
    """Raises unless `restraint >= 0` and `floor > 0` is finite."""
    if not restraint >= 0:
        raise ValueError(
            "`restraint` must be a number >= 0, infinity for least squares. "
            f"Received: {restraint!r}"
        )
    if not 0 < floor < np.inf:
        raise ValueError(
            f"`floor` must be a finite number > 0. Received: {floor!r}"
        )


def checked_weight(weight, rows: int) -> np.ndarray:
    """Weights `(rows,)`, finite, `>= 0` and somewhere positive."""
    if weight is None:
        return np.ones(rows)
    given = np.asarray(weight, dtype="float64")
    weight = np.full(rows, given) if given.ndim == 0 else given
    valid = weight.shape == (rows,) and np.isfinite(weight).all()
    if not valid or (weight < 0).any():
        raise ValueError(
            f"`sample_weight` must be finite, >= 0 and of shape ({rows},). "
            f"Received: {weight.shape} with {(~(weight >= 0)).sum()} "
            "negative or NaN values"
        )
    if not weight.any():
        # These are the words that scikit-learn's own checks look for.
        raise ValueError(
            "Sample weights must contain at least one non-zero number. "
            f"Received: sample_weight={weight[:5]}"
        )
    return weight


def _center_and_spread(rows, weight):
    """Median and spread along the last axis. A spread of 0 becomes 1."""
    center = starts.weighted_median(rows, weight)
    distance = np.abs(rows - center[..., None])
    spread = 1.4826 * starts.weighted_median(distance, weight)
    # If more than half of the values are equal, the spread of all is used.
    rms = np.sqrt(distance**2 @ weight / weight.sum())
    spread = np.where(spread > 1e-9 * rms, spread, rms)
    return center, np.where(spread > 1e-12 * np.abs(center), spread, 1.0)
