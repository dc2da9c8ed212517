"""Multivariate likelihoods, and the scale matrices of vectors.

If the noise has unit covariance, `matrix` is the covariance of the outcome.
"""

import math
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.operations import clip, seed_generator
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Identity, ShiftedSoftplus, Softplus
from keras_likelihood.likelihoods.checks import (
    check_argument,
    check_size,
    matched,
)
from keras_likelihood.likelihoods.location_scale import Normal
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    normalizer_excess,
)
from keras_likelihood.likelihoods.student_t import StudentT


def _below_the_diagonal(units: int) -> int:
    allowed = "at least 2 for covariance='full'; for one use 'diagonal'"
    check_argument("units", units, units >= 2, allowed)
    return units * (units - 1) // 2


_SCALE = Parameter("scale", ShiftedSoftplus(0.01), size=lambda units: units)


class Diagonal:
    """`diag(scale)^2` for independent coordinates, scale `(..., d)`."""

    @staticmethod
    def parameters(rank: int | None) -> tuple[Parameter, ...]:
        return (_SCALE,)

    def __init__(self, scale: Tensor) -> None:
        self.scale = scale

    def log_determinant(self) -> Tensor:
        """Half the logarithm of the determinant of the covariance."""
        return ops.sum(ops.log(self.scale), axis=-1)

    def squared_distance(self, residual: Tensor) -> Tensor:
        """`r^T covariance^-1 r` of residuals `(..., d)`."""
        return ops.sum(ops.square(residual / self.scale), axis=-1)

    def noise(self, shape: Any, seed: Any) -> Tensor:
        """Normal noise with this covariance, in the given shape."""
        dtype = self.scale.dtype
        return self.scale * keras.random.normal(shape, dtype=dtype, seed=seed)

    def matrix(self) -> Tensor:
        return ops.square(self.scale)[..., None] * _eye(self.scale)


class LowRank(Diagonal):
    """`diag(scale)^2 + W W^T`, with a few directions of correlation.

    `factor` contains the concatenated rows of W, `(..., d * rank)`.
    """

    def __init__(self, scale: Tensor, factor: Tensor) -> None:
        super().__init__(scale)
        d = scale.shape[-1]
        shape = tuple(ops.shape(factor))[:-1]
        self.factor = ops.reshape(factor, (*shape, d, factor.shape[-1] // d))

    @staticmethod
    def parameters(rank: int | None) -> tuple[Parameter, ...]:
        # Small and irregular, because equal columns would stay equal.
        start = tuple(0.2 * math.sin(1 + k * k) for k in range(61))
        size = (rank or 0).__mul__
        return (_SCALE, Parameter("factor", Identity(), start, size=size))

    def _small(self) -> tuple[Tensor, Tensor]:
        """`(W / scale, Cholesky factor of 1 + W^T diag(scale)^-2 W)`."""
        stretched = self.factor / self.scale[..., None]
        products = stretched[..., :, None] * stretched[..., None, :]
        inner = ops.sum(products, axis=-3)
        inner = inner + ops.eye(self.factor.shape[-1], dtype=inner.dtype)
        return stretched, ops.cholesky(inner)

    def log_determinant(self) -> Tensor:
        diagonal = ops.diagonal(self._small()[1], axis1=-2, axis2=-1)
        return super().log_determinant() + ops.sum(ops.log(diagonal), axis=-1)

    def squared_distance(self, residual: Tensor) -> Tensor:
        # Sum of the squares of the residual that the factors do not explain,
        # and of the factors. The shorter formula is a difference.
        stretched, small = self._small()
        white = residual / self.scale
        seen = ops.sum(stretched * white[..., None], axis=-2)
        half = _solve(small, seen[..., None])
        moved = _solve(ops.swapaxes(small, -1, -2), half, lower=False)[..., 0]
        squares = ops.sum(ops.square(white - _times(stretched, moved)), axis=-1)
        return squares + ops.sum(ops.square(moved), axis=-1)

    def noise(self, shape: Any, seed: Any) -> Tensor:
        seed = seed_generator(seed)
        own = super().noise(shape, seed)
        shape = *shape[:-1], self.factor.shape[-1]
        moved = keras.random.normal(shape, dtype=own.dtype, seed=seed)
        return own + _times(self.factor, moved)

    def matrix(self) -> Tensor:
        turned = ops.swapaxes(self.factor, -1, -2)
        return super().matrix() + ops.matmul(self.factor, turned)


class Cholesky(Diagonal):
    """`L L^T` with `L = diag(scale) (1 + A)`, A below the diagonal.

    The scale of each coordinate is conditional on the coordinates before it.
    `lower` contains the concatenated rows of A, `(..., d (d - 1) / 2)`.
    """

    @staticmethod
    def parameters(rank: int | None) -> tuple[Parameter, ...]:
        size = _below_the_diagonal
        return (_SCALE, Parameter("lower", Identity(), 0.0, size=size))

    def __init__(self, scale: Tensor, lower: Tensor) -> None:
        super().__init__(scale)
        d = scale.shape[-1]
        place = np.zeros((d, d), "int32")
        place[np.tril_indices(d, -1)] = 1 + np.arange(d * (d - 1) // 2)
        padded = ops.concatenate([ops.zeros_like(lower[..., :1]), lower], -1)
        entries = ops.take(padded, place.ravel(), axis=-1)
        shape = (*tuple(ops.shape(lower))[:-1], d, d)
        unit = ops.reshape(entries, shape) + _eye(scale)
        self.root = scale[..., None] * unit

    def squared_distance(self, residual: Tensor) -> Tensor:
        white = _solve(self.root, residual[..., None])
        return ops.sum(ops.square(white), axis=(-2, -1))

    def noise(self, shape: Any, seed: Any) -> Tensor:
        normal = keras.random.normal(shape, dtype=self.scale.dtype, seed=seed)
        return _times(self.root, normal)

    def matrix(self) -> Tensor:
        return ops.matmul(self.root, ops.swapaxes(self.root, -1, -2))


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """The product; on PyTorch `ops.matmul` casts float64 to float32."""
    return ops.sum(matrix * vector[..., None, :], axis=-1)


def _eye(like: Tensor) -> Tensor:
    return ops.eye(like.shape[-1], dtype=like.dtype)


def _solve(root: Tensor, right: Tensor, lower: bool = True) -> Tensor:
    """`root^-1 right` for a triangular root, after broadcasting both."""
    zeros = ops.zeros_like(root[..., :1, :1] + right[..., :1, :1])
    return ops.solve_triangular(root + zeros, right + zeros, lower=lower)


_SHAPES: Any = {"diagonal": Diagonal, "low_rank": LowRank, "full": Cholesky}


class Multivariate(Parametrized):
    """A distribution of vectors, which lie on the last axis of the prediction.

    The argument `covariance` is the structure of the covariance:

    - `"diagonal"`: independent coordinates, with one `scale` each.
    - `"low_rank"`: `diag(scale)^2 + W W^T`. W has `rank` columns and is stored
      in `factor`. Use it for long vectors.
    - `"full"`: any covariance, with the Cholesky factor `diag(scale) (1 + A)`.
      `lower` contains the entries of A below the diagonal.

    A subclass defines `own_parameters`, `nll`, `sample`, `marginal` and
    `_after_seeing` (the factor on the conditional matrix and the conditional
    own parameters, given the number of coordinates and their squared distance).
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
        parameters = cls.own_parameters + _SHAPES[covariance].parameters(rank)
        own = {"covariance": covariance, "rank": rank}
        return {**own, "parameters": parameters, "event_rank": 1}

    @property
    @method()
    def scale_matrix(self) -> Any:
        """The scale matrix, a `Diagonal`."""
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
    def marginal(self, index: int) -> Any:
        """The distribution of one coordinate, `(batch, ..., 1)`."""
        raise NotImplementedError

    @method()
    def conditional(self, index: Any, values: Tensor) -> Any:
        """The distribution of the other coordinates, in their order.

        Args:
            index: the observed coordinate, or a list of several.
            values: observed values, `(batch, ..., number of coordinates)`.
        """
        d, seen = self.prediction.shape[-1], np.atleast_1d(index).tolist()
        rest = [i for i in range(d) if i not in seen]
        fits = 0 < len(rest) == d - len(seen) < d
        allowed = f"different coordinates from 0 to {d - 1}, but not all"
        check_argument("index", index, fits, allowed)
        matrix = self.scale_squared()

        def block(rows: list[int], columns: list[int]) -> Tensor:
            return ops.take(ops.take(matrix, rows, axis=-2), columns, axis=-1)

        known, mean = (ops.take(self.prediction, i, -1) for i in (seen, rest))
        root = ops.cholesky(block(seen, seen))
        white = _solve(root, (matched(values, known) - known)[..., None])
        across = _solve(root, block(seen, rest))
        turned = ops.swapaxes(across, -1, -2)
        mean = mean + ops.matmul(turned, white)[..., 0]
        distance = ops.sum(ops.square(white), axis=(-2, -1))
        factor, own = self._after_seeing(len(seen), distance)
        root = ops.cholesky(
            factor * (block(rest, rest) - ops.matmul(turned, across))
        )
        own["scale"] = scale = ops.diagonal(root, axis1=-2, axis2=-1)
        if len(rest) == 1:
            return self.family._make(covariance="diagonal")(mean, **own)
        rows, columns = np.tril_indices(len(rest), -1)
        lower = [root[..., i, j] for i, j in zip(rows, columns, strict=True)]
        lower = ops.stack(lower, axis=-1) / ops.take(scale, rows, axis=-1)
        return self.family._make()(mean, lower=lower, **own)

    def _coordinate(self, index: int) -> tuple[Tensor, Tensor]:
        """Location and scale of one coordinate."""
        d = self.prediction.shape[-1]
        allowed = f"a coordinate from 0 to {d - 1}"
        check_argument("index", index, index in range(d), allowed)
        square = self.scale_squared()[..., index, index]
        return self.prediction[..., index, None], ops.sqrt(square)[..., None]


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

    def marginal(self, index: int) -> Normal:
        mean, scale = self._coordinate(index)
        return Normal(mean, scale=scale)

    def _after_seeing(self, count: int, distance: Tensor) -> Any:
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

    def marginal(self, index: int) -> StudentT:
        median, scale = self._coordinate(index)
        return StudentT(median, df=self.df, scale=scale)

    def _after_seeing(self, count: int, distance: Tensor) -> Any:
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
