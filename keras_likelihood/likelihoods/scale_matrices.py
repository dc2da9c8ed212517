"""Scale matrices of vectors: diagonal, low-rank and full.

If the noise has unit covariance, `matrix` is the covariance of the outcome.
"""

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_likelihood.backend.operations import seed_generator
from keras_likelihood.backend.types import Tensor
from keras_likelihood.constraints import Identity, ShiftedSoftplus
from keras_likelihood.likelihoods.checks import check_argument
from keras_likelihood.likelihoods.parameter import Parameter


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

    def precision_diagonal(self) -> Tensor:
        """Diagonal of the inverse of the covariance."""
        return 1 / ops.square(self.scale)


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
        columns = int(rank or 0)
        start = tuple(0.2 * math.sin(1 + k * k) for k in range(61))
        factor = Parameter(
            "factor", Identity(), initial=start, size=lambda d: d * columns
        )
        return (_SCALE, factor)

    def _small(self) -> tuple[Tensor, Tensor]:
        """`(W / scale, Cholesky factor of 1 + W^T diag(scale)^-2 W)`."""
        stretched = self.factor / self.scale[..., None]
        products = stretched[..., :, None] * stretched[..., None, :]
        inner = ops.sum(products, axis=-3)
        inner = inner + ops.eye(self.factor.shape[-1], dtype=inner.dtype)
        return stretched, ops.cholesky(inner)

    def log_determinant(self) -> Tensor:
        _, small = self._small()
        diagonal = ops.diagonal(small, axis1=-2, axis2=-1)
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

    def precision_diagonal(self) -> Tensor:
        stretched, small = self._small()
        part = _solve(small, ops.swapaxes(stretched, -1, -2))
        return (1 - ops.sum(ops.square(part), axis=-2)) / ops.square(self.scale)


class Cholesky(Diagonal):
    """`L L^T` with `L = diag(scale) (1 + A)`, A below the diagonal.

    The scale of each coordinate is conditional on the coordinates before it.
    `lower` contains the concatenated rows of A, `(..., d (d - 1) / 2)`.
    """

    @staticmethod
    def parameters(rank: int | None) -> tuple[Parameter, ...]:
        size = _below_the_diagonal
        return (_SCALE, Parameter("lower", Identity(), initial=0.0, size=size))

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

    def precision_diagonal(self) -> Tensor:
        return ops.sum(ops.square(_solve(self.root, _eye(self.scale))), axis=-2)


def cholesky_parameters(covariance: Tensor) -> dict[str, Any]:
    """`scale` and `lower` of a covariance matrix `(..., d, d)`."""
    root = ops.cholesky(covariance)
    scale = ops.diagonal(root, axis1=-2, axis2=-1)
    d = covariance.shape[-1]
    if d == 1:
        return {"scale": scale}
    rows, columns = np.tril_indices(d, -1)
    flat = ops.reshape(root, (*tuple(ops.shape(root))[:-2], d * d))
    entries = ops.take(flat, rows * d + columns, axis=-1)
    return {"scale": scale, "lower": entries / ops.take(scale, rows, axis=-1)}


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    """The product; on PyTorch `ops.matmul` casts float64 to float32."""
    return ops.sum(matrix * vector[..., None, :], axis=-1)


def _eye(like: Tensor) -> Tensor:
    return ops.eye(like.shape[-1], dtype=like.dtype)


def _solve(root: Tensor, right: Tensor, lower: bool = True) -> Tensor:
    """`root^-1 right` for a triangular root, after broadcasting both."""
    zeros = ops.zeros_like(root[..., :1, :1] + right[..., :1, :1])
    return ops.solve_triangular(root + zeros, right + zeros, lower=lower)
