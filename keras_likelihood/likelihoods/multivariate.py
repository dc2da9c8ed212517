"""Multivariate likelihoods, and the scale matrices of vectors."""

import math
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.operations import clip, seed_generator
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Identity, ShiftedSoftplus, Softplus
from keras_likelihood.likelihoods.checks import check_argument, check_size
from keras_likelihood.likelihoods.location_scale import (
    LocationScale,
    Normal,
    StudentT,
)
from keras_likelihood.likelihoods.method_calls import method
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.special import (
    HALF_LOG_2_PI,
    normalizer_excess,
)


def _below_the_diagonal(units: int) -> int:
    allowed = "at least 2 for covariance='full'; for one use 'diagonal'"
    check_argument("units", units, units >= 2, allowed)
    return units * (units - 1) // 2


class Diagonal:
    """`diag(scale)^2` for independent coordinates, scale `(..., d)`.

    A scale matrix is a product `R R^T`. `color` multiplies noise by R.
    """

    def __init__(self, scale: Tensor) -> None:
        self.scale = scale
        self.noises = scale.shape[-1]

    def log_determinant(self) -> Tensor:
        """Half the logarithm of the determinant."""
        return ops.sum(ops.log(self.scale), axis=-1)

    def whiten(self, residual: Tensor) -> Tensor:
        """The smallest noise `(..., noises)` that has this color."""
        return residual / self.scale

    def color(self, noise: Tensor) -> Tensor:
        return self.scale * noise

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
        self.noises = d + self.factor.shape[-1]

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

    def whiten(self, residual: Tensor) -> Tensor:
        # What the factors do not explain, and the factors. The shorter formula
        # of the squared distance is a difference.
        stretched, small = self._small()
        white = residual / self.scale
        seen = ops.sum(stretched * white[..., None], axis=-2)
        half = _solve(small, seen[..., None])
        moved = _solve(ops.swapaxes(small, -1, -2), half, lower=False)[..., 0]
        return ops.concatenate([white - _times(stretched, moved), moved], -1)

    def color(self, noise: Tensor) -> Tensor:
        d = self.scale.shape[-1]
        moved = _times(self.factor, noise[..., d:])
        return super().color(noise[..., :d]) + moved

    def matrix(self) -> Tensor:
        turned = ops.swapaxes(self.factor, -1, -2)
        return super().matrix() + ops.matmul(self.factor, turned)


class Cholesky(Diagonal):
    """`L L^T` with `L = diag(scale) (1 + A)`, A below the diagonal.

    The scale of each coordinate is conditional on the coordinates before it.
    `lower` contains the concatenated rows of A, `(..., d (d - 1) / 2)`.
    """

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

    def whiten(self, residual: Tensor) -> Tensor:
        return _solve(self.root, residual[..., None])[..., 0]

    def color(self, noise: Tensor) -> Tensor:
        return _times(self.root, noise)

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


_SCALE = Parameter("scale", ShiftedSoftplus(0.01), size=lambda units: units)
_SHAPES: Any = {"diagonal": Diagonal, "low_rank": LowRank, "full": Cholesky}


class Multivariate(Parametrized):
    """A distribution of vectors, which lie on the last axis of the prediction.

        nll(y) = radial_nll(r^T S^-1 r, d) + log det(S) / 2

    with `r = y - prediction` and S the squared scale. The argument `covariance`
    is its structure:

    - `"diagonal"`: independent coordinates, with one `scale` each.
    - `"low_rank"`: `diag(scale)^2 + W W^T`. W has `rank` columns and is stored
      in `factor`. Use it for long vectors.
    - `"full"`: any matrix, with the Cholesky factor `diag(scale) (1 + A)`.
      `lower` contains the entries of A below the diagonal.

    A subclass defines `coordinate` and `radial_nll`, and unless it is normal
    also `own_parameters`, `_stretch` and `_after_seeing`.
    """

    example = "covariance=full"
    coordinate: ClassVar[type[LocationScale]]
    """The likelihood of one coordinate."""
    own_parameters: ClassVar[tuple[Parameter, ...]] = ()
    """Parameters of the coordinates besides the scale."""

    @classmethod
    def define(
        cls, *, covariance: str = "full", rank: int | None = None
    ) -> dict[str, Any]:
        known, allowed = covariance in _SHAPES, f"one of {sorted(_SHAPES)}"
        check_argument("covariance", covariance, known, allowed)
        parameters = [*cls.own_parameters, _SCALE]
        if covariance == "low_rank":
            check_size("rank", rank, 1)
            # Small and irregular, because equal columns would stay equal.
            start = tuple(0.2 * math.sin(1 + k * k) for k in range(61))
            size = (rank or 0).__mul__
            parameters.append(Parameter("factor", Identity(), start, size=size))
        else:
            allowed = f"None for {covariance=}, which is not 'low_rank'"
            check_argument("rank", rank, rank is None, allowed)
        if covariance == "full":
            size = _below_the_diagonal
            parameters.append(Parameter("lower", Identity(), 0.0, size=size))
        own = {"covariance": covariance, "rank": rank}
        return {**own, "parameters": tuple(parameters), "event_rank": 1}

    def radial_nll(self, distance: Tensor, d: int) -> Tensor:
        """NLL at a squared distance from 0, if the scale is 1."""
        raise NotImplementedError

    def _stretch(self, shape: Any, seed: Any) -> Any:
        """Random factors of normal noise, one for each vector."""
        return 1.0

    def _after_seeing(self, count: int, distance: Tensor) -> Any:
        """Factor of the matrix and own parameters, given some coordinates."""
        return 1.0, {}

    def nll(self, y: Tensor) -> Tensor:
        matrix = self.scale_matrix
        white = matrix.whiten(y - self.prediction)
        distance = ops.sum(ops.square(white), axis=-1)
        nll = self.radial_nll(distance, self.prediction.shape[-1])
        return nll + matrix.log_determinant()

    def sample(self, count: int | None = None, seed: Any = None) -> Tensor:
        seed, matrix = seed_generator(seed), self.scale_matrix
        *rows, _ = self._sample_shape(count)
        dtype, shape = self.prediction.dtype, (*rows, matrix.noises)
        noise = keras.random.normal(shape, dtype=dtype, seed=seed)
        stretch = self._stretch((*rows, 1), seed)
        return self.prediction + matrix.color(noise) * stretch

    def mean(self) -> Tensor:
        return self.prediction

    def variance(self) -> Tensor:
        return self._coordinates().variance()

    def _coordinates(self) -> Any:
        """The distributions of all coordinates, without their dependence."""
        square = ops.diagonal(self.scale_squared(), axis1=-2, axis2=-1)
        own = {p.name: getattr(self, p.name) for p in self.own_parameters}
        return self.coordinate(self.prediction, scale=ops.sqrt(square), **own)

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
        d = self.prediction.shape[-1]
        allowed = f"a coordinate from 0 to {d - 1}"
        check_argument("index", index, index in range(d), allowed)
        # Own parameters of a vector have a last axis of length 1.
        return self._coordinates().map_values(
            lambda v: v[..., index, None] if v.shape[-1:] == (d,) else v
        )

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
        residual = self.coordinate.match_target(values, known) - known
        white = _solve(root, residual[..., None])
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

    coordinate = Normal

    def radial_nll(self, distance: Tensor, d: int) -> Tensor:
        return 0.5 * distance + d * HALF_LOG_2_PI


class MultivariateStudentT(Multivariate):
    """Multivariate Student's t, with one `df` for all entries.

        nll(y) = (df + d) / 2 * log(1 + r^T S^-1 r / df) + log det(S) / 2
                 + d log(df pi) / 2 + log G(df / 2) - log G((df + d) / 2)

    Here `r = y - prediction`, S is the squared scale and G the gamma function.
    If one entry of a vector is an outlier, the whole vector has less weight.

    Args:
        covariance, rank: as in `MultivariateNormal`.

    The resulting class takes the `prediction`, which is the median
    `(batch, ..., d)`, `df` `(batch, ..., 1)`, and the parameters of
    `MultivariateNormal`.
    """

    coordinate = StudentT
    own_parameters = (Parameter("df", Softplus(floor=1.0), initial=4.0),)

    def _df(self) -> Tensor:
        """Degrees of freedom per vector."""
        return self.df[..., 0] if len(self.df.shape) else self.df

    def radial_nll(self, distance: Tensor, d: int) -> Tensor:
        df = self._df()
        tail = 0.5 * (df + d) * ops.log1p(distance / df)
        return tail + _log_partition(df, d)

    def _stretch(self, shape: Any, seed: Any) -> Tensor:
        half_df = ops.broadcast_to(clip(0.5 * self.df, 0.0, 1e14), shape)
        dtype = self.prediction.dtype
        gamma = keras.random.gamma(shape, half_df, dtype=dtype, seed=seed)
        return ops.sqrt(half_df / gamma)

    def mean(self) -> Tensor:
        return ops.where(self.df > 1, self.prediction, float("nan"))

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
