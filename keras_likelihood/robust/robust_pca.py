"""Principal components with one scale per example."""

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from keras_likelihood.backend.blas_threads import one_blas_thread
from keras_likelihood.robust import subspace
from keras_likelihood.robust.linear import check_settings


class RobustPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Principal components with a scale for each example.

        x_i ~ Normal(mean + z_i V, scale_i),  scale_i >= floor

    with z_i the coordinates in the subspace V. The scales have the prior
    `(floor / scale)^restraint`; with e_i the distance of x_i to the subspace
    and m the dimensions across it, the best scale is

        scale_i = max(floor, e_i / sqrt(m + restraint)),

    and an example counts with weight `(floor / scale_i)^2` in the mean and in
    the covariance of which V are the leading eigenvectors. Mean, subspace,
    scales and floor are learned together.

    Args:
        n_components: dimension of the subspace, from 1 to `min(n - 1, d)`.
            With all d there are no distances, and the result is plain PCA.
            Defaults to 2.
        restraint: exponent of the prior, `> 0`. Infinity is plain PCA.
            Defaults to 1.
        floor: smallest floor, in units of the spread of X. Defaults to 1e-4.
        random_state: seed of the random subsets from which the fit starts.
            Defaults to 0.

    Attributes:
        components_: orthonormal rows, `(n_components, d)`, by falling
            variance.
        mean_: `(d,)`.
        explained_variance_: weighted variances along the components,
            `(n_components,)`.
        explained_variance_ratio_: their share of the weighted variance of X.
        scale_: scales of the training examples, `(n,)`; large for outliers.
        floor_: the smallest possible scale.

    Example:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5)) * [3, 2, 0.1, 0.1, 0.1]
    >>> x[:20, 4] += 30
    >>> int(RobustPCA(2).fit(x).scale_.argsort()[-20:].max())
    19
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        restraint: float = 1.0,
        floor: float = 1e-4,
        random_state=0,
    ):
        self.n_components = n_components
        self.restraint = restraint
        self.floor = floor
        self.random_state = random_state

    def fit(self, X, y=None):  # noqa: N803
        """Fits subspace and scales to X, `(n, d)`; `y` is not used."""
        check_settings(self.restraint, self.floor)
        if self.restraint == 0:
            raise ValueError(
                "`restraint` must be > 0 for the floor to be learned. "
                f"Received: {self.restraint!r}"
            )
        X = validate_data(  # noqa: N806
            self, X, dtype="float64", ensure_min_samples=2
        )
        n, d = X.shape
        most = min(n - 1, d)
        whole = isinstance(self.n_components, int | np.integer)
        if not (whole and 1 <= self.n_components <= most):
            raise ValueError(
                "`n_components` must be an integer from 1 to min(n_samples - "
                f"1, n_features) = {most} for n_samples={n} and n_features={d}"
                f". Received: {self.n_components!r}"
            )
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            fitted = subspace.solve(
                X, self.n_components, self.restraint, self.floor, rng
            )
        self.mean_, self.components_ = fitted.mean, fitted.basis
        self.floor_ = fitted.floor
        self.scale_ = self._scales(X)
        self._measure_variance(X)
        return self

    def _measure_variance(self, x):
        weight = (self.floor_ / self.scale_) ** 2
        freedom = max(weight.sum() - 1, np.finfo("float64").tiny)
        centred = x - self.mean_
        coordinates = centred @ self.components_.T
        self.explained_variance_ = weight @ coordinates**2 / freedom
        total = (weight @ centred**2).sum() / freedom
        self.explained_variance_ratio_ = self.explained_variance_ / max(
            total, np.finfo("float64").tiny
        )

    def transform(self, X) -> np.ndarray:  # noqa: N803
        """Coordinates in the subspace, `(n, n_components)`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="float64", reset=False)  # noqa: N806
        return (X - self.mean_) @ self.components_.T

    def inverse_transform(self, X) -> np.ndarray:  # noqa: N803
        """Points of the subspace with the coordinates X, `(n, d)`."""
        check_is_fitted(self)
        return np.asarray(X) @ self.components_ + self.mean_

    def predict_scale(self, X) -> np.ndarray:  # noqa: N803
        """The scales of these examples, `(n,)`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="float64", reset=False)  # noqa: N806
        return self._scales(X)

    def _scales(self, x):
        across = x.shape[1] - len(self.components_)
        if across == 0:
            return np.full(len(x), self.floor_)
        squares = subspace.squared_distances(x, self.mean_, self.components_)
        scale = np.sqrt(squares / (across + self.restraint))
        return np.maximum(self.floor_, scale)

    @property
    def _n_features_out(self):
        return len(self.components_)
