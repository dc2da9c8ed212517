"""Principal components with one scale per example."""

import dataclasses
from typing import Any

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from keras_likelihood.backend.threads import one_blas_thread
from keras_likelihood.backend.types import Array
from keras_likelihood.likelihoods.checks import check_argument, check_seed
from keras_likelihood.robust import starts
from keras_likelihood.robust.data_scale import influence, rho
from keras_likelihood.robust.scale_regressors import check_options

_SUBSETS, _SCREENING_ROWS, _KEEP = 100, 300, 3


def squared_distances(x: Array, mean: Array, basis: Array) -> Array:
    """Squared distances of the rows of x to the subspace, `(n,)`."""
    centred = x - mean
    return ((centred - centred @ basis.T @ basis) ** 2).sum(axis=1)


def solve_subspace(
    x: Array, components: int, restraint: float, floor: float, rng: Any
) -> tuple[Any, ...]:
    """Mean `(d,)`, orthonormal rows `(q, d)` and floor.

    Of several minima, the one with the smallest median distance is chosen. By
    cost, a dense cluster of outliers would often get its own direction.
    """
    mean, basis = _principal(x, np.ones(len(x)), components)
    across = x.shape[1] - components
    spread = np.sqrt(((x - np.median(x, axis=0)) ** 2).mean())
    least = floor * (spread or 1.0)
    if across == 0 or np.isinf(restraint) or len(x) < components + 2:
        squares = squared_distances(x, mean, basis).sum()
        cells = max(across, 1) * max(len(x) - components - 1, 1)
        return mean, basis, max(np.sqrt(squares / cells), least)
    begin = [(mean, basis), *_through_subsets(x, components, rng)]
    reached = [_descend(x, at, restraint, least) for at in begin]
    medians = [np.median(squared_distances(x, *at[:2])) for at in reached]
    return reached[np.argmin(medians)]


def _principal(x: Array, weight: Array, components: int) -> tuple[Array, Array]:
    """Weighted mean and leading principal directions."""
    mean = weight @ x / weight.sum()
    rows = np.sqrt(weight)[:, None] * (x - mean)
    if x.shape[1] <= len(x):
        _, vectors = np.linalg.eigh(rows.T @ rows)
        basis = vectors[:, ::-1].T[:components]
    else:
        basis = np.linalg.svd(rows, full_matrices=False)[2][:components]
    # As in scikit-learn, the largest entry is positive.
    largest = np.abs(basis).argmax(axis=1, keepdims=True)
    return mean, basis * np.sign(np.take_along_axis(basis, largest, axis=1))


def _through_subsets(
    x: Array, components: int, rng: Any
) -> list[tuple[Array, Array]]:
    """The best of the subspaces through small subsets."""
    sample = x[np.lexsort(x.T)]
    if len(x) > _SCREENING_ROWS:
        rows = starts.draw_rows(np.ones(len(x)), _SCREENING_ROWS, rng)
        sample = sample[np.sort(rows)]
    unit = np.ones(len(sample))
    planes = [
        _principal(sample[rows], unit[rows], components)
        for rows in starts.draw_rows(unit, (_SUBSETS, components + 1), rng)
    ]
    planes.sort(key=lambda at: np.median(squared_distances(sample, *at)))
    return planes[:_KEEP]


def _descend(
    x: Array, start: tuple[Array, Array], restraint: float, least: float
) -> tuple[Array, Array, float]:
    """Updates scales, floor and subspace in turn. The cost never increases."""
    # The floor counts once for each remaining degree of freedom. Otherwise a
    # subspace through a few examples would be the optimum.
    components, d = start[1].shape
    across = d - components
    a, freedom = across + restraint, across * (len(x) - components - 1)
    squares = squared_distances(x, *start)
    floor2 = max(np.median(squares) / across, least**2)
    cost = np.inf
    for _ in range(200):
        weight = influence(squares / floor2, a)
        mean, basis = _principal(x, weight, components)
        squares = squared_distances(x, mean, basis)
        floor2 = max(weight @ squares / freedom, least**2)
        before = cost
        cost = rho(squares / floor2, a).sum() + freedom * np.log(floor2) / 2
        if before - cost < 1e-10 * len(x):
            break
    return mean, basis, float(np.sqrt(floor2))


@dataclasses.dataclass(eq=False, repr=False)
class RobustPCA(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Principal components with a scale for each example.

        x_i ~ Normal(mean + z_i V, scale_i),  scale_i >= floor

    with z_i the coordinates in the subspace V. The scales have the prior
    `(floor / scale)^restraint`. With e_i the distance of x_i to the subspace
    and m the number of dimensions orthogonal to it, the best scale is

        scale_i = max(floor, e_i / sqrt(m + restraint)),

    and an example counts with weight `(floor / scale_i)^2` in the mean and in
    the covariance of which V are the leading eigenvectors. Mean, subspace,
    scales and floor are learned together.

    Args:
        n_components: dimension of the subspace, from 1 to `min(n - 1, d)`.
            With all d the result is plain PCA. Defaults to 2.
        restraint: exponent of the prior, `> 0`. Infinity is plain PCA.
            Defaults to 1.
        floor: smallest floor, in units of the spread of X. Defaults to 1e-4.
        random_state: seed of the random subsets from which the fit starts.

    Attributes:
        components_: orthonormal rows, `(n_components, d)`, by decreasing
            variance.
        mean_: `(d,)`.
        explained_variance_: weighted variances along the components.
        explained_variance_ratio_: their share of the weighted variance of X.
        scale_: scales of the training examples, `(n,)`; large for outliers.
        floor_: the smallest possible scale.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5)) * [3, 2, 0.1, 0.1, 0.1]
    >>> x[:20, 4] += 30
    >>> int(RobustPCA(2).fit(x).scale_.argsort()[-20:].max())
    19
    """

    n_components: int = 2
    _: dataclasses.KW_ONLY
    restraint: float = 1.0
    floor: float = 1e-4
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None) -> "RobustPCA":  # noqa: N803
        """Fits subspace and scales to X, `(n, d)`; `y` is not used."""
        check_options(self.restraint, self.floor)
        X = validate_data(  # noqa: N806
            self, X, dtype="float64", ensure_min_samples=2
        )
        n, d = X.shape
        most = min(n - 1, d)
        whole = isinstance(self.n_components, int | np.integer)
        fits = whole and 1 <= self.n_components <= most
        allowed = "an integer from 1 to min(n_samples - 1, n_features) = "
        allowed += f"{most} for n_samples={n} and n_features={d}"
        check_argument("n_components", self.n_components, fits, allowed)
        check_seed("random_state", self.random_state)
        rng = check_random_state(self.random_state)
        with one_blas_thread():
            self.mean_, self.components_, self.floor_ = solve_subspace(
                X, self.n_components, self.restraint, self.floor, rng
            )
        self.scale_ = self._scales(X)
        weight = (self.floor_ / self.scale_) ** 2 if self.floor_ else np.ones(n)
        tiny = np.finfo("float64").tiny
        freedom = max(weight.sum() - 1, tiny)
        centred = X - self.mean_
        variance = weight @ (centred @ self.components_.T) ** 2 / freedom
        total = max((weight @ centred**2).sum() / freedom, tiny)
        self.explained_variance_ = variance
        self.explained_variance_ratio_ = variance / total
        return self

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        """Coordinates in the subspace, `(n, n_components)`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="float64", reset=False)  # noqa: N806
        return (X - self.mean_) @ self.components_.T

    def inverse_transform(self, X: Array) -> np.ndarray:  # noqa: N803
        """Points of the subspace with the coordinates X, `(n, d)`."""
        check_is_fitted(self)
        return np.asarray(X) @ self.components_ + self.mean_

    def predict_scale(self, X: Any) -> np.ndarray:  # noqa: N803
        """The scales of these examples, `(n,)`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype="float64", reset=False)  # noqa: N806
        return self._scales(X)

    def _scales(self, x: Array) -> Array:
        across = x.shape[1] - len(self.components_)
        squares = squared_distances(x, self.mean_, self.components_)
        scale = np.sqrt(squares / (across + self.restraint))
        return np.maximum(self.floor_, scale)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
