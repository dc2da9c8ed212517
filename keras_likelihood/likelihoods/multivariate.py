"""What likelihoods of vectors have in common."""

from typing import Any, ClassVar

import numpy as np
from keras import ops

from keras_likelihood.likelihoods.checks import check_size
from keras_likelihood.likelihoods.parameter import Parameter
from keras_likelihood.likelihoods.parametrized import Parametrized
from keras_likelihood.likelihoods.scale_matrices import (
    Cholesky,
    Diagonal,
    LowRank,
    cholesky_parameters,
)

_SHAPES: dict[str, Any] = {
    "diagonal": Diagonal,
    "low_rank": LowRank,
    "full": Cholesky,
}


class Multivariate(Parametrized):
    """A distribution of vectors, the last axis of the prediction.

    The argument `covariance` says how the entries of a vector depend on each
    other:

    - `"diagonal"`: they are independent. `scale` has an entry per coordinate.
    - `"low_rank"`: by `diag(scale)^2 + W W^T`. W has `rank` columns, which are
      in `factor`. Use it for long vectors.
    - `"full"`: in any way, by the Cholesky factor `diag(scale) (1 + A)` with A
      below the diagonal in `lower`.

    A subclass defines `own_parameters`, `nll`, `sample`, `_one_coordinate`
    (the distribution of a coordinate from its mean and scale) and
    `_after_seeing` (the factor on the matrix and the own parameters, given so
    many coordinates at this squared distance).
    """

    example = "covariance=full"
    own_parameters: ClassVar[tuple[Parameter, ...]] = ()
    """Parameters in front of those of the covariance."""

    @classmethod
    def define(cls, *, covariance="full", rank=None):
        if covariance not in _SHAPES:
            raise ValueError(
                f"`covariance` must be one of {sorted(_SHAPES)}. "
                f"Received: {covariance!r}"
            )
        if covariance == "low_rank":
            check_size("rank", rank, 1)
        elif rank is not None:
            raise ValueError(
                "`rank` is for covariance='low_rank'. "
                f"Received: covariance={covariance!r}, rank={rank!r}"
            )
        parameters = _SHAPES[covariance].parameters(rank)
        return {
            "covariance": covariance,
            "rank": rank,
            "parameters": cls.own_parameters + parameters,
            "event_rank": 1,
        }

    @property
    def scale_matrix(self):
        """The matrix of the scale, one of `scale_matrices`."""
        own = len(self.own_parameters)
        values = [getattr(self, p.name) for p in self.parameters[own:]]
        return _SHAPES[self.covariance](*values)

    def scale_squared(self):
        """The matrix of the scale, `(batch, ..., d, d)`.

        It is the covariance of a normal distribution.
        """
        matrix = self.scale_matrix.matrix()
        shape = tuple(ops.shape(self.prediction))
        return ops.broadcast_to(matrix, (*shape, shape[-1]))

    def marginal(self, index):
        """The distribution of some coordinates alone.

        Args:
            index: a coordinate, or a list of several.

        Returns:
            A `Likelihood` of single numbers `(batch, ..., 1)` for one
            coordinate, of vectors for a list.
        """
        chosen, _ = self._coordinates(index)
        matrix = self.scale_squared()
        mean = ops.take(self.prediction, chosen, axis=-1)
        matrix = _block(matrix, chosen, chosen)
        if isinstance(index, int | np.integer):
            return self._one_coordinate(mean, ops.sqrt(matrix[..., 0]))
        own = {p.name: getattr(self, p.name) for p in self.own_parameters}
        return self._vector(mean, matrix, own)

    def conditional(self, index, values):
        """The distribution of the other coordinates, given some of them.

        Args:
            index: the coordinate that was seen, or a list of several.
            values: what was seen, `(batch, ..., number of coordinates)`.

        Returns:
            A distribution of the same family over the other coordinates, in
            their order.
        """
        seen, rest = self._coordinates(index)
        if not rest:
            raise ValueError(
                "`index` must leave out at least one coordinate. "
                f"Received: {index}"
            )
        values = ops.convert_to_tensor(values, dtype=self.prediction.dtype)
        expected = (*self.prediction.shape[:-1], len(seen))
        if tuple(values.shape) != expected:
            raise ValueError(
                f"`values` must have the shape {expected}. "
                f"Received: {tuple(values.shape)}"
            )
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

    def _coordinates(self, index):
        d = self.prediction.shape[-1]
        chosen = [int(i) for i in np.atleast_1d(index)]
        different = set(chosen) & set(range(d))
        if not chosen or len(different) < len(chosen):
            raise ValueError(
                f"`index` must name different coordinates from 0 to {d - 1}. "
                f"Received: {index}"
            )
        return chosen, [i for i in range(d) if i not in chosen]

    def _vector(self, mean, matrix, own):
        kind = "full" if mean.shape[-1] > 1 else "diagonal"
        made = self.family._make(covariance=kind)
        return made(mean, **own, **cholesky_parameters(matrix))


def _block(matrix, rows, columns):
    return ops.take(ops.take(matrix, rows, axis=-2), columns, axis=-1)
