"""Multivariate likelihoods."""

import math
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.operations import clip, seed_generator
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Softplus
from keras_likelihood.likelihoods.checks import check_argument, check_size
from keras_likelihood.likelihoods.location_scale import Normal
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.scale_matrices import (
    Cholesky,
    Diagonal,
    LowRank,
    cholesky_parameters,
)
from keras_likelihood.likelihoods.special import HALF_LOG_2_PI
from keras_likelihood.likelihoods.student_t import StudentT, normalizer_excess

_SHAPES: dict[str, Any] = {
    "diagonal": Diagonal,
    "low_rank": LowRank,
    "full": Cholesky,
}


class Multivariate(Parametrized):
    """A distribution of vectors, which lie on the last axis of the prediction.

    The argument `covariance` is the structure of the covariance:

    - `"diagonal"`: independent coordinates, with one `scale` each.
    - `"low_rank"`: `diag(scale)^2 + W W^T`. W has `rank` columns and is stored
      in `factor`. Use it for long vectors.
    - `"full"`: any covariance, with the Cholesky factor `diag(scale) (1 + A)`.
      `lower` contains the entries of A below the diagonal.

    A subclass defines `own_parameters`, `nll`, `sample`, `_one_coordinate`
    (the distribution of a coordinate with a given mean and scale) and
    `_after_seeing` (the factor on the conditional matrix and the conditional
    own parameters, given the number of observed coordinates and their squared
    distance).
    """

    example = "covariance=full"
    own_parameters: ClassVar[tuple[Parameter, ...]] = ()
    """Parameters that precede the parameters of the covariance."""

    @classmethod
    def define(
        cls, *, covariance: str = "full", rank: int | None = None
    ) -> dict[str, Any]:
        known, allowed = covariance in _SHAPES, f"one of {sorted(_SHAPES)}"
        check_argument("covariance", covariance, known, allowed)
        if covariance == "low_rank":
            check_size("rank", rank, 1)
        else:
            allowed = f"None for {covariance=}, which is not 'low_rank'"
            check_argument("rank", rank, rank is None, allowed)
        parameters = _SHAPES[covariance].parameters(rank)
        return {
            "covariance": covariance,
            "rank": rank,
            "parameters": cls.own_parameters + parameters,
            "event_rank": 1,
        }

    @property
    @method()
    def scale_matrix(self) -> Any:
        """The scale matrix, an object of `scale_matrices`."""
        own = len(self.own_parameters)
        values = [getattr(self, p.name) for p in self.parameters[own:]]
        return _SHAPES[self.covariance](*values)

    @method()
    def scale_squared(self) -> Tensor:
        """The squared scale, `(batch, ..., d, d)`.

        For a normal distribution it is the covariance.
        """
        shape = tuple(ops.shape(self.prediction))
        return ops.broadcast_to(self.scale_matrix.matrix(), (*shape, shape[-1]))

    @method()
    def marginal(self, index: Any) -> Any:
        """The marginal distribution of some coordinates.

        If `index` is one coordinate, the result is a distribution of numbers
        `(batch, ..., 1)`. If it is a list, the outcomes are vectors.
        """
        chosen, _ = self._coordinates(index)
        matrix = self.scale_squared()
        mean = ops.take(self.prediction, chosen, axis=-1)
        matrix = _block(matrix, chosen, chosen)
        if isinstance(index, int | np.integer):
            return self._one_coordinate(mean, ops.sqrt(matrix[..., 0]))
        own = {p.name: getattr(self, p.name) for p in self.own_parameters}
        return self._vector(mean, matrix, own)

    @method()
    def conditional(self, index: Any, values: Tensor) -> Any:
        """The distribution of the other coordinates, in their order.

        Args:
            index: the observed coordinate, or a list of several.
            values: observed values, `(batch, ..., number of coordinates)`.
        """
        seen, rest = self._coordinates(index)
        check_argument("index", index, rest, "some coordinates, but not all")
        values = ops.convert_to_tensor(values, dtype=self.prediction.dtype)
        expected = (*self.prediction.shape[:-1], len(seen))
        shape, allowed = tuple(values.shape), f"of shape {expected}"
        check_argument("values", shape, shape == expected, allowed)
        matrix = self.scale_squared()
        root = ops.cholesky(_block(matrix, seen, seen))
        residual = values - ops.take(self.prediction, seen, axis=-1)
        white = ops.solve_triangular(root, residual[..., None], lower=True)
        across = _block(matrix, seen, rest)
        across = ops.solve_triangular(root, across, lower=True)
        turned = ops.swapaxes(across, -1, -2)
        mean = ops.take(self.prediction, rest, axis=-1)
        mean = mean + ops.matmul(turned, white)[..., 0]
        matrix = _block(matrix, rest, rest) - ops.matmul(turned, across)
        distance = ops.sum(ops.square(white), axis=(-2, -1))
        factor, own = self._after_seeing(len(seen), distance)
        return self._vector(mean, factor * matrix, own)

    def _coordinates(self, index: Any) -> tuple[list[int], list[int]]:
        d = self.prediction.shape[-1]
        chosen = [int(i) for i in np.atleast_1d(index)]
        fits = chosen and len(set(chosen) & set(range(d))) == len(chosen)
        allowed = f"different coordinates from 0 to {d - 1}"
        check_argument("index", index, fits, allowed)
        return chosen, [i for i in range(d) if i not in chosen]

    def _vector(self, mean: Tensor, matrix: Tensor, own: Any) -> Any:
        kind = "full" if mean.shape[-1] > 1 else "diagonal"
        made = self.family._make(covariance=kind)
        return made(mean, **own, **cholesky_parameters(matrix))


def _block(matrix: Tensor, rows: Any, columns: Any) -> Tensor:
    return ops.take(ops.take(matrix, rows, axis=-2), columns, axis=-1)


class MultivariateNormal(Multivariate):
    """Multivariate normal, for boxes, key points or joint forecasts.

        nll(y) = r^T C^-1 r / 2 + log det(C) / 2 + d log(2 pi) / 2

    with `r = y - prediction` and C the covariance.

    ```python
    box = kl.likelihoods.MultivariateNormal(covariance="full")
    outputs = kl.layers.LikelihoodHead(box, 4)(features)
    model = kl.LikelihoodModel(inputs, outputs)
    model.compile("adam", loss=kl.losses.LikelihoodLoss(box))
    found = model.predict_distribution(x)
    found.marginal(0).interval(0.9)
    found.conditional([0, 1], corner)
    ```

    Args:
        covariance: `"full"` (default), `"low_rank"` or `"diagonal"`.
        rank: number of columns of the low-rank part, only for `"low_rank"`.

    The resulting class takes the `prediction`, which is the mean
    `(batch, ..., d)`, and the parameters `scale` `(batch, ..., d)`, and
    `lower` `(batch, ..., d (d - 1) / 2)` or `factor`
    `(batch, ..., d * rank)`.
    """

    def nll(self, y: Tensor) -> Tensor:
        residual = y - self.prediction
        matrix = self.scale_matrix
        distance = matrix.squared_distance(residual)
        size = residual.shape[-1] * HALF_LOG_2_PI
        return 0.5 * distance + matrix.log_determinant() + size

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        shape = self._sample_shape(count)
        return self.prediction + self.scale_matrix.noise(shape, seed)

    def mean(self) -> Tensor:
        return self.prediction

    def variance(self) -> Tensor:
        return ops.diagonal(self.scale_squared(), axis1=-2, axis2=-1)

    def information(self) -> Tensor:
        diagonal = self.scale_matrix.precision_diagonal()
        return ops.broadcast_to(diagonal, ops.shape(self.prediction))

    def _one_coordinate(self, mean: Tensor, scale: Tensor) -> Tensor:
        return Normal(mean, scale=scale)

    def _after_seeing(self, count: int | None, distance: Tensor) -> Tensor:
        return 1.0, {}


class MultivariateStudentT(Multivariate):
    """Multivariate Student's t, with one `df` for all entries.

        nll(y) = (df + d) / 2 * log(1 + r^T S^-1 r / df) + log det(S) / 2
                 + d log(df pi) / 2 + log G(df / 2) - log G((df + d) / 2)

    Here `r = y - prediction`, S is the squared scale and G the gamma function.
    If one entry of a vector is an outlier, the whole vector has less weight.

    Args:
        covariance: structure of the scale matrix, `"full"` (default),
            `"low_rank"` or `"diagonal"`, see `Multivariate`.
        rank: number of columns of the low-rank part, only for `"low_rank"`.

    The resulting class takes the `prediction`, which is the median
    `(batch, ..., d)`, `df` `(batch, ..., 1)`, and the parameters of
    `MultivariateNormal`.
    """

    own_parameters = (Parameter("df", Softplus(floor=1.0), initial=4.0),)

    def _df(self) -> Tensor:
        """Degrees of freedom per vector."""
        return self.df[..., 0] if len(self.df.shape) else self.df

    def nll(self, y: Tensor) -> Tensor:
        residual = y - self.prediction
        matrix = self.scale_matrix
        df, d = self._df(), residual.shape[-1]
        distance = matrix.squared_distance(residual)
        tail = 0.5 * (df + d) * ops.log1p(distance / df)
        return tail + matrix.log_determinant() + _log_partition(df, d)

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        shape, seed = self._sample_shape(count), seed_generator(seed)
        noise = self.scale_matrix.noise(shape, seed)
        half = (*shape[:-1], 1)
        half_df = ops.broadcast_to(clip(0.5 * self.df, 0.0, 1e14), half)
        dtype = self.prediction.dtype
        gamma = keras.random.gamma(half, half_df, dtype=dtype, seed=seed)
        return self.prediction + noise * ops.sqrt(half_df / gamma)

    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.prediction, float("nan"))

    def variance(self) -> Tensor:
        """Variances of the entries, infinite up to `df = 2`."""
        square = ops.diagonal(self.scale_squared(), axis1=-2, axis2=-1)
        return square * StudentT(self.df, df=self.df).standard_variance()

    def information(self) -> Tensor:
        """`(df + d) / (df + d + 2)` times the diagonal of `S^-1`."""
        diagonal = self.scale_matrix.precision_diagonal()
        share = 1 - 2 / (self.df + self.prediction.shape[-1] + 2)
        return ops.broadcast_to(diagonal * share, ops.shape(self.prediction))

    def _one_coordinate(self, mean: Tensor, scale: Tensor) -> Tensor:
        return StudentT(mean, df=self.df, scale=scale)

    def _after_seeing(self, count: int | None, distance: Tensor) -> Tensor:
        df = self._df()
        factor = ((df + distance) / (df + count))[..., None, None]
        return factor, {"df": self.df + count}


def _log_partition(df: Tensor, d: Tensor) -> Tensor:
    """`d log(df pi) / 2 + log G(df / 2) - log G((df + d) / 2)`.

    It uses `G(a + 1) = a G(a)` and avoids differences of large numbers.
    """
    total = 0.5 * d * math.log(2 * math.pi) + 0.0 * df
    start = 0.5 * df
    if d % 2:
        total = total + normalizer_excess(start)
        start = start + 0.5
    for k in range(d // 2):
        total = total - ops.log1p((start + k - 0.5 * df) / (0.5 * df))
    return total
